// What quantize_into checks of its options before any backend sees them.
#pragma once

#include "microscale/quantize.hpp"

namespace microscale {

/// View, block length, scale rule, weights, global scale. Throws Error.
void check_quantize_options(const QuantizeOptions& options, const BlockShape& shape,
                            bool on_device);

/// What a call on the device returns: where its global scale is or will be.
GlobalScale device_global_scale(const QuantizeOptions& options);

}  // namespace microscale
