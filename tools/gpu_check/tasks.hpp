// The four NVFP4 tasks of "Twelve Attempts at an FP4 Kernel" as they are defined: their data, their
// shapes, their tolerance.
#pragma once

#include "equality.hpp"

namespace microscale::cuda {

/// Every shape of each task (Amount::full; else lengths that are small parts of them), operands
/// with scales row by row and in tiles of 128 x 4, d in FP16: within rtol = atol = 1e-3 of the
/// CPU's FP32 result.
void check_tasks(Device& device, const Scope& scope, EqualityTotals& totals);

}  // namespace microscale::cuda
