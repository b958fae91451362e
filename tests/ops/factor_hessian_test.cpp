// U D U^T against a textbook's factorization, at sizes around the width of a step.
#include "ops/factor_hessian.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/hessian_oracle.hpp"

namespace microscale {
namespace {

Triangle filled(const test::Doubles& h) {
  Triangle a(static_cast<std::int64_t>(h.size()));
  for (std::int64_t i = 0; i < a.size(); ++i)
    for (std::int64_t k = i; k < a.size(); ++k) a.row(i)[k] = h[std::size_t(i)][std::size_t(k)];
  return a;
}

test::Doubles hessian(std::size_t size) {
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return test::shrunk(test::correlated_hessian(std::int64_t(size), 400), order, 0.1, 0.01);
}

TEST(FactorHessian, equals_a_textbooks) {
  for (const std::size_t size : {16u, 48u, 64u, 80u, 208u}) {
    const test::Doubles h = hessian(size), wanted = test::upper_factor(h);
    Triangle a = filled(h);
    ASSERT_TRUE(factor_hessian(a, reference_hessian_kernels, 1));
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t j = i; j < size; ++j) {
        const double root = std::sqrt(a.row(std::int64_t(j))[j]);
        ASSERT_NEAR(a.row(std::int64_t(i))[j] / root, wanted[i][j], 1e-10 * std::sqrt(h[i][i]))
            << size << ": (" << i << ", " << j << ')';
      }
  }
}

TEST(FactorHessian, refuses_a_matrix_that_is_not_positive_definite) {
  test::Doubles h = hessian(96);
  h[10][70] = h[70][10] = 2 * std::sqrt(h[10][10] * h[70][70]);
  Triangle a = filled(h);
  EXPECT_FALSE(factor_hessian(a, reference_hessian_kernels, 1));
  // One token: a pivot that rounding leaves is none.
  for (std::size_t i = 0; i < 96; ++i)
    for (std::size_t j = 0; j < 96; ++j) h[i][j] = (1 + double(i)) * (1 + double(j)) / 3;
  Triangle flat = filled(h);
  EXPECT_FALSE(factor_hessian(flat, reference_hessian_kernels, 1));
}

}  // namespace
}  // namespace microscale
