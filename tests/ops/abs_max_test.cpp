#include <gtest/gtest.h>

#include <cmath>

#include "microscale/quantize.hpp"
#include "support/matrices.hpp"

namespace microscale {
namespace {

using test::gaussian;
using test::Matrix;

TEST(AbsMax, finds_the_largest_magnitude_and_the_first_non_finite_element) {
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    Matrix m = gaussian(type, 300, 700);
    m.set(211, 5, -9.0f);
    EXPECT_EQ(abs_max(m.view()).amax, 9.0f);
    EXPECT_EQ(abs_max(m.view()).non_finite, -1);
    m.set(250, 690, NAN);
    m.set(260, 1, -INFINITY);
    const AbsMax range = abs_max(m.view(), {.threads = 3});
    EXPECT_EQ(range.non_finite, 250 * 700 + 690);
    EXPECT_EQ(range.amax, INFINITY);
  }
}

TEST(AbsMax, of_nothing_is_zero) {
  const Matrix m(DType::f32, 0, 7);
  EXPECT_EQ(abs_max(m.view()).amax, 0.0f);
  EXPECT_EQ(abs_max(m.view()).non_finite, -1);
}

}  // namespace
}  // namespace microscale
