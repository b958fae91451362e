// The fused operations: byte equality with the CPU, and times.
#pragma once

#include <vector>

#include "equality.hpp"
#include "timing.hpp"

namespace microscale::cuda {

/// Adds to `totals`. `quick` as in check_equality.
void check_fused(Device& device, bool quick, EqualityTotals& totals);

std::vector<Timing> measure_fused(Device& device, double copy_bytes_per_second);

}  // namespace microscale::cuda
