// The fused operations: byte equality with the CPU.
#pragma once

#include "equality.hpp"

namespace microscale::cuda {

/// Adds to `totals`.
void check_fused(Device& device, const Scope& scope, EqualityTotals& totals);

}  // namespace microscale::cuda
