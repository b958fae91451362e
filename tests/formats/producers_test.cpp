#include "formats/producers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

namespace microscale {
namespace {

double silu(double x) { return x / (1 + std::exp(-x)); }

TEST(Producers, silu_is_as_close_as_promised_on_both_sides_of_zero) {
  double worst_below = 0, worst_above = 0;
  for (float x = -43.0f; x < 90.0f; x += 0.00137f) {
    if (x == 0) continue;
    const SiluPair pair = silu_mul(x, -x > lowest_gate ? -x : lowest_gate, 1.0f, 1.0f);
    const double error = std::fabs(pair.first / silu(x) - 1);
    (x < -4 ? worst_below : worst_above) = std::max(x < -4 ? worst_below : worst_above, error);
  }
  EXPECT_LT(worst_below, 0x1p-19);
  EXPECT_LT(worst_above, 0x1p-21);
  EXPECT_GT(worst_below, 0x1p-23);  // never off at all would be suspicious
}

TEST(Producers, silu_neighbours_share_a_reciprocal_without_touching_each_other) {
  for (float other : {-43.0f, -20.0f, 0.0f, 3e38f, INFINITY, NAN}) {
    const SiluPair pair = silu_mul(1.5f, other, 2.0f, 1.0f),
                   swapped = silu_mul(other, 1.5f, 1.0f, 2.0f);
    EXPECT_NEAR(pair.first, 2 * silu(1.5), 1e-6) << other;
    EXPECT_NEAR(swapped.second, 2 * silu(1.5), 1e-6) << other;
  }
}

TEST(Producers, silu_has_the_limits_of_the_function) {
  const auto one = [](float gate, float up) { return silu_mul(clamp_gate(gate), 0, up, 0).first; };
  EXPECT_EQ(one(0.0f, 5.0f), 0.0f);
  EXPECT_EQ(one(100.0f, 1.0f), 100.0f);
  EXPECT_EQ(one(INFINITY, 1.0f), INFINITY);
  EXPECT_EQ(one(3e38f, 0.5f), 1.5e38f);
  for (float gate : {-44.0f, -1e30f, -INFINITY}) {
    EXPECT_LE(one(gate, 1.0f), 0.0f) << gate;
    EXPECT_GT(one(gate, 1.0f), -1.1e-17f) << gate;
  }
  EXPECT_TRUE(std::isnan(one(NAN, 1.0f)));
  EXPECT_TRUE(std::isnan(one(1.0f, NAN)));
  EXPECT_TRUE(std::isnan(clamp_gate(NAN)));
  static_assert(silu_mul(0.0f, 1.0f, 1.0f, 1.0f).first == 0.0f);
}

TEST(Producers, rms_group_sum_is_eight_sums_then_pairs) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, 1);
  std::array<float, 32> x;
  for (float& value : x) value = normal(generator);
  std::array<float, 8> sums{};
  for (std::size_t i = 0; i < 32; ++i) sums[i % 8] = std::fmaf(x[i], x[i], sums[i % 8]);
  const float wanted =
      ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  EXPECT_EQ(rms_group_sum([&](int i) { return x[static_cast<std::size_t>(i)]; }), wanted);
}

TEST(Producers, rms_multiplier_is_close_and_has_sensible_limits) {
  EXPECT_EQ(rms_inverse_count(3), 1.0f / 3.0f);
  for (float sum : {1e-20f, 0.3f, 10.0f, 7e8f, 1e30f})
    for (std::int64_t cols : {16, 7168, 100000}) {
      const double wanted =
          1 / std::sqrt(static_cast<double>(sum) / static_cast<double>(cols) + 1e-5);
      EXPECT_NEAR(rms_multiplier(sum, rms_inverse_count(cols), 1e-5f) / wanted, 1.0, 3e-7) << sum;
    }
  EXPECT_EQ(rms_multiplier(INFINITY, 0.25f, 1e-6f), 0.0f);
  EXPECT_TRUE(std::isnan(rms_multiplier(NAN, 0.25f, 1e-6f)));
  EXPECT_EQ(0.0f * rms_multiplier(0.0f, 0.25f, 0.0f), 0.0f);
  EXPECT_EQ(rms_value(3.0f, 0.1f, 0.7f), 3.0f * 0.1f * 0.7f);
}

TEST(Producers, hadamard_scale_makes_the_matrix_orthonormal) {
  for (int order : {16, 32, 64, 128})
    EXPECT_EQ(hadamard_scale(order), static_cast<float>(1 / std::sqrt(static_cast<double>(order))));
}

TEST(Producers, hadamard_steps_multiply_by_the_sylvester_matrix) {
  std::mt19937 generator(2);
  std::normal_distribution<float> normal(0, 1);
  for (int order : {16, 32, 64, 128}) {
    std::vector<float> x(static_cast<std::size_t>(order)), y;
    for (float& value : x) value = normal(generator);
    y = x;
    const auto at = [&](int i) -> float& { return y[static_cast<std::size_t>(i)]; };
    for (int i = 0; i < order; i += 2) hadamard_first(at(i), at(i + 1), hadamard_scale(order));
    for (int distance = 2; distance < order; distance *= 2)
      for (int i = 0; i < order; ++i)
        if (!(i & distance)) hadamard_step(at(i), at(i + distance));
    for (int row = 0; row < order; ++row) {
      double sum = 0;
      for (int col = 0; col < order; ++col)
        sum += (__builtin_popcount(static_cast<unsigned>(row & col)) % 2 ? -1.0 : 1.0) *
               x[static_cast<std::size_t>(col)];
      EXPECT_NEAR(at(row), sum / std::sqrt(static_cast<double>(order)), 2e-6)
          << order << ' ' << row;
    }
  }
}

TEST(Producers, gelu_tanh_is_within_its_bound) {
  for (int i = -7400; i <= 60000; ++i) {
    const float x = static_cast<float>(i) * 0.001f + 0.0003f;
    const double wide = x;
    const double wanted =
        wide / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (wide + 0.044715 * wide * wide * wide)));
    ASSERT_NEAR(gelu_tanh_mul(x, 3.0f), 3 * wanted, std::fabs(3 * wanted) * 0x1p-17) << x;
  }
}

TEST(Producers, gelu_tanh_at_the_ends) {
  EXPECT_EQ(gelu_tanh_mul(1e30f, 2.0f), 2e30f);
  EXPECT_EQ(gelu_tanh_mul(INFINITY, 1.0f), INFINITY);
  EXPECT_NEAR(gelu_tanh_mul(-1e30f, 1.0f), 0.0f, 1e-17);
  EXPECT_NEAR(gelu_tanh_mul(-INFINITY, 1.0f), 0.0f, 1e-17);
  EXPECT_TRUE(std::isnan(gelu_tanh_mul(NAN, 1.0f)));
  EXPECT_EQ(gelu_tanh_mul(0.0f, 5.0f), 0.0f);
}

}  // namespace
}  // namespace microscale
