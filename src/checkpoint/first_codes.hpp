// Whether a model is quantized at all, whatever its config.json says.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/quantized_folder.hpp"

namespace microscale {

/// The first tensor that shows that the model is quantized, and by what, in words:
/// "'P.weight_packed' is nvfp4"; nothing for a dense one.
std::optional<std::string> first_codes(const QuantizedFolder& folder);

}  // namespace microscale
