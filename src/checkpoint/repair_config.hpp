// config.json of a folder that is repaired: the ignore list in the spellings that engines match,
// and a description that fits the tensors.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/quantized_folder.hpp"
#include "core/result.hpp"

namespace microscale {

/// The new text, empty if the old one is right; adds what was done to `changes`. Fails where the
/// description is ModelOpt's and wrong: that is not rewritten.
Result<std::string> repaired_config(const QuantizedFolder& folder,
                                    std::vector<std::string>& changes);

}  // namespace microscale
