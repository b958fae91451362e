// What quantize_with_hessian reads of a Hessian.
#pragma once

#include <vector>

#include "microscale/hessian.hpp"
#include "seam/hessian_kernels.hpp"

namespace microscale {

struct PreparedHessian::Parts {
  HessianOptions options;           // its span is empty
  double damping = 0;               // that it took
  std::int64_t dead = 0;            // columns without input
  std::vector<std::int64_t> order;  // of blocks: the columns of block b come from block order[b]
  std::vector<float> factor;        // as HessianRows takes them
  std::vector<float> pivots;
  std::vector<float> hessian_blocks;
};

/// Of the backend that `context` chooses. Throws Error.
const HessianKernels& hessian_kernels(const char* operation, const Context& context);

/// Finite, symmetric within a thousandth of what the diagonal allows, no diagonal number below 0.
/// Throws Error.
void check_hessian(const char* operation, std::span<const float> hessian, std::int64_t cols,
                   int threads);

}  // namespace microscale
