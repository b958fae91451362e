// H = U D U^T with U upper triangular and 1 on its diagonal, in FP64: a Cholesky factorization from
// the last column to the first. A library's would differ in its last bits from machine to machine.
#pragma once

#include <cstdint>
#include <vector>

#include "seam/hessian_kernels.hpp"

namespace microscale {

/// The upper triangle of a symmetric matrix, row after row.
class Triangle {
 public:
  explicit Triangle(std::int64_t size)
      : size_(size), values_(static_cast<std::size_t>(size * (size + 1) / 2)) {}
  std::int64_t size() const { return size_; }
  /// Element k of the row, k >= i, is at row(i)[k].
  double* row(std::int64_t i) { return values_.data() + i * size_ - i * (i + 1) / 2; }
  const double* row(std::int64_t i) const { return values_.data() + i * size_ - i * (i + 1) / 2; }

 private:
  std::int64_t size_;
  std::vector<double> values_;
};

/// Overwrites a with D on the diagonal and U D above it. False where a number of D is not positive,
/// or lost in the rounding of what it came from; a is then undefined. The size is a multiple of 16.
bool factor_hessian(Triangle& a, const HessianKernels& kernels, int threads);

}  // namespace microscale
