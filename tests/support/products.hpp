// Test data of matrix products: block tensors with every code and a spread of scales, exact results
// in FP64 made from dequantized values, and the bound a backend's result must keep.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "microscale/matmul.hpp"
#include "support/matrices.hpp"
#include "support/present.hpp"
#include "support/random_blocks.hpp"
#include "support/roundings.hpp"

namespace microscale::test {

/// One side of a product: dense values for the exact sums, and what is passed to the operation.
struct Side {
  Matrix values{DType::f32, 0, 0};  // without the global scale
  double global = 1;
  std::optional<Matrix> dense;
  std::optional<BlockTensor> blocks;

  explicit Side(Matrix m) : values(DType::f32, m.rows, m.cols), dense(std::move(m)) {
    for (std::int64_t r = 0; r < dense->rows; ++r)
      for (std::int64_t c = 0; c < dense->cols; ++c) values.set(r, c, dense->at(r, c));
  }
  explicit Side(BlockTensor t) : global(t.global_scale), blocks(std::move(t)) {
    BlockTensorView plain = blocks->view();
    plain.global_scale = 1.0f;
    values = decoded(plain);
  }
  MatmulInput input() const {
    if (dense) return dense->view();
    return blocks->view();
  }
};

/// The exact value of one element of d and what the bound is made of.
struct Exact {
  double value = 0, magnitude = 0;  // sum of a * b and of |a * b|, times the factor
};
inline Exact exact_at(const Side& a, const Side& b, std::int64_t i, std::int64_t j,
                      double alpha = 1) {
  Exact e;
  for (std::int64_t k = 0; k < a.values.cols; ++k) {
    const double product = static_cast<double>(a.values.at(i, k)) * b.values.at(j, k);
    e.value += product;
    e.magnitude += std::fabs(product);
  }
  const double factor = alpha * a.global * b.global;
  e.value *= factor;
  e.magnitude *= std::fabs(factor);
  return e;
}

/// Half a unit in the last place of `type` at `value`.
inline double half_unit(double value, DType type) {
  const int bits = type == DType::f32 ? 24 : type == DType::f16 ? 11 : 8;
  const int least = type == DType::f16 ? -24 : type == DType::bf16 ? -133 : -149;
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(0.5, std::max(exponent - bits, least));
}

/// What docs/matmul.md promises for one element: sums of up to k terms by `backend`, then the
/// factor, a bias and the rounding to `type`.
inline double bound(const Exact& e, std::int64_t k, Backend backend, DType type = DType::f32,
                    double bias = 0) {
  const double sums =
      static_cast<double>(product_roundings(backend, k)) * 0x1p-24 * e.magnitude * 1.001;
  const double epilogue = 3 * 0x1p-24 * (std::fabs(e.value) + std::fabs(bias)) + 0x1p-148;
  return sums + epilogue + half_unit(std::fabs(e.value) + std::fabs(bias) + sums, type);
}

/// Every element of `d` against the exact product.
inline ::testing::AssertionResult near_exact(const Matrix& d, const Side& a, const Side& b,
                                             Backend backend, double alpha = 1,
                                             const Matrix* bias = nullptr) {
  for (std::int64_t i = 0; i < d.rows; ++i)
    for (std::int64_t j = 0; j < d.cols; ++j) {
      const Exact e = exact_at(a, b, i, j, alpha);
      const double added = bias ? bias->at(0, j) : 0;
      const double limit = bound(e, a.values.cols, backend, d.dtype, added);
      const double wanted = e.value + added, got = d.at(i, j);
      if (!(std::fabs(got - wanted) <= limit))
        return ::testing::AssertionFailure()
               << to_string(backend) << ": d[" << i << ", " << j << "] is " << got << ", exactly "
               << wanted << "; off by " << std::fabs(got - wanted) << ", allowed " << limit;
    }
  return ::testing::AssertionSuccess();
}

/// The product as a matrix of `type`.
inline Matrix product(const MatmulInput& a, const MatmulWeights& b, std::int64_t m, std::int64_t n,
                      const Context& context, DType type = DType::f32, float alpha = 1.0f,
                      const TensorView& bias = {}, std::int64_t batch = 1) {
  Matrix d(type, m * batch, n);
  MutableTensorView view = d.mutable_view();
  view.rows = m;
  matmul({.a = a, .b = b, .d = view, .batch = batch, .alpha = alpha, .bias = bias}, context);
  return d;
}

}  // namespace microscale::test
