// GELU's gate against double arithmetic over its whole range.
#include "formats/activations.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace microscale {
namespace {

TEST(Activations, gelu_tanh_is_within_its_bound) {
  for (int i = -7400; i <= 60000; ++i) {
    const float x = static_cast<float>(i) * 0.001f + 0.0003f;
    const double wide = x;
    const double wanted =
        wide / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (wide + 0.044715 * wide * wide * wide)));
    ASSERT_NEAR(gelu_tanh_mul(x, 3.0f), 3 * wanted, std::fabs(3 * wanted) * 0x1p-17) << x;
  }
}

TEST(Activations, gelu_tanh_at_the_ends) {
  EXPECT_EQ(gelu_tanh_mul(1e30f, 2.0f), 2e30f);
  EXPECT_EQ(gelu_tanh_mul(INFINITY, 1.0f), INFINITY);
  EXPECT_NEAR(gelu_tanh_mul(-1e30f, 1.0f), 0.0f, 1e-17);
  EXPECT_NEAR(gelu_tanh_mul(-INFINITY, 1.0f), 0.0f, 1e-17);
  EXPECT_TRUE(std::isnan(gelu_tanh_mul(NAN, 1.0f)));
  EXPECT_EQ(gelu_tanh_mul(0.0f, 5.0f), 0.0f);
}

}  // namespace
}  // namespace microscale
