// Grouped quantize and the repacking of containers on the GPU at hand: byte for byte against the
// CPU, and timed.
#pragma once

#include "equality.hpp"
#include "timing.hpp"

namespace microscale::cuda {

/// Adds its calls and differences to `totals`.
void check_grouped(Device& device, bool quick, EqualityTotals& totals);

/// Adds rows to `timings`, whose copy bandwidth is known.
void measure_grouped(Device& device, Timings& timings);

}  // namespace microscale::cuda
