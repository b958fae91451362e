// The quant_method of a config.json against the tensors, for methods whose description says little
// else.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/quantized_folder.hpp"

namespace microscale {

/// gpt-oss's description says nothing that its tensors do not: all experts are MXFP4.
bool is_gpt_oss(const QuantizedFolder& folder, std::string_view method);

/// The first weight that is not quantized as the method says, in words; of a method whose weights
/// are not known here, none.
std::optional<std::string> of_another_method(const QuantizedFolder& folder,
                                             std::string_view method);

}  // namespace microscale
