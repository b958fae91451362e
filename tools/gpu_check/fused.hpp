// The fused operations: byte equality with the CPU.
#pragma once

#include "equality.hpp"

namespace microscale::cuda {

/// Adds to `totals`. `quick` as in check_equality.
void check_fused(Device& device, bool quick, EqualityTotals& totals);

}  // namespace microscale::cuda
