// Whether the numbers that the options ask for are those of the format.
#pragma once

#include "core/result.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// A failure for a scale rule that the format has not, and for an importance file that would have
/// no effect.
Status check_numerics(const QuantizeModelOptions& options);

}  // namespace microscale
