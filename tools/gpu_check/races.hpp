// Every quantizer launched once, for compute-sanitizer's slow tools.
#pragma once

#include <cstdint>

#include "cuda/device/device.hpp"

namespace microscale::cuda {

/// Launches each quantizer (rows, columns, both axes, grouped, every producer; all formats, types,
/// layouts and modes), dequantizer and repack once, on matrices that just have a whole tile and an
/// edge. Compares nothing: races change nothing here, the tool that watches reports them. Returns
/// the number of calls.
std::int64_t launch_each_kernel(Device& device);

}  // namespace microscale::cuda
