// The reference's matrix product: exact values, FP64 sums from the first term to the last. What
// every other backend is compared with; takes every format.
#pragma once

#include <cstdint>

#include "seam/matmul_kernels.hpp"

namespace microscale {

extern const MatmulKernels reference_matmul;

/// Element (row, i), exact: a dense element, or code * block scale without any global scale.
double matmul_element(const MatmulRows& rows, std::int64_t row, std::int64_t i);

}  // namespace microscale
