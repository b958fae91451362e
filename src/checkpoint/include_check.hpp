// Patterns of --include that a user meant to have an effect and that have none.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/treatments.hpp"
#include "core/result.hpp"

namespace microscale {

/// A failure for a pattern that matches tensors, but none that is quantized: they are kept by
/// default, and only a pattern without wildcards overrules that. Says which and why, and what to
/// write instead.
Status check_includes(const std::vector<std::string>& include,
                      const std::vector<TensorTreatment>& treatments);

}  // namespace microscale
