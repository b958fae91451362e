// What quantize_into checks of its options before any backend sees them.
#pragma once

#include "microscale/quantize.hpp"

namespace microscale {

/// View, block length, scale rule, weights, global scale. Throws Error.
void check_quantize_options(const QuantizeOptions& options, const BlockShape& shape);

}  // namespace microscale
