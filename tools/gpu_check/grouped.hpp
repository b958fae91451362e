// Grouped quantize and the repacking of containers on the GPU at hand: byte for byte against the
// CPU.
#pragma once

#include "equality.hpp"

namespace microscale::cuda {

/// Adds its calls and differences to `totals`.
void check_grouped(Device& device, bool quick, EqualityTotals& totals);

}  // namespace microscale::cuda
