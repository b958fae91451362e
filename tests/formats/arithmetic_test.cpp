#include "formats/arithmetic.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace microscale {
namespace {

float random_float(std::mt19937_64& generator) {
  for (;;) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(generator()));
    if (std::isfinite(value)) return value;
  }
}

TEST(Arithmetic, constant_evaluated_fma_equals_the_processor_s) {
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<float> near_one(0.5f, 2.0f);
  for (int i = 0; i < 200000; ++i) {
    float a = near_one(generator), b = near_one(generator);
    float c = -a * b * (1 + std::ldexp(near_one(generator), -20 - i % 8));  // heavy cancellation
    if (i % 3 == 0)
      a = random_float(generator), b = random_float(generator), c = random_float(generator);
    const float expected = std::fmaf(a, b, c);
    if (!std::isfinite(expected)) continue;
    ASSERT_EQ(detail::fma_constexpr(a, b, c), expected)
        << std::hexfloat << a << ' ' << b << ' ' << c;
    ASSERT_EQ(fused_multiply_add(a, b, c), expected);
  }
  static_assert(fused_multiply_add(0x1.000002p0f, 0x1.000002p0f, -0x1.000004p0f) == 0x1p-46f);
}

TEST(Arithmetic, exp2_is_within_one_unit_in_the_last_place) {
  double worst = 0;
  for (float x = -125.99f; x < 128.0f; x += 0.000917f) {
    const double exact = std::exp2(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::fabs(exp2_exact(x) - exact) / unit);
  }
  EXPECT_LT(worst, 1.0);
  EXPECT_GT(worst, 0.4);  // a polynomial that is never off by half a unit would be suspicious
  for (float x = -149.0f; x < -126.0f; x += 0.01f)
    EXPECT_NEAR(exp2_exact(x) / 0x1p-149, std::exp2(static_cast<double>(x)) / 0x1p-149, 2.0) << x;
  for (int i = -149; i < 128; ++i)
    EXPECT_EQ(exp2_exact(static_cast<float>(i)), std::ldexp(1.0f, i)) << i;
  EXPECT_EQ(exp2_exact(128.0f), INFINITY);
  EXPECT_EQ(exp2_exact(-151.0f), 0.0f);
  EXPECT_TRUE(std::isnan(exp2_exact(NAN)));
  static_assert(exp2_exact(0.5f) == 0x1.6a09e6p0f);
}

TEST(Arithmetic, smaller_number_passes_over_a_nan_in_front) {
  EXPECT_EQ(smaller_number(1.0f, 2.0f), 1.0f);
  EXPECT_EQ(smaller_number(3.0f, 2.0f), 2.0f);
  EXPECT_EQ(smaller_number(NAN, 2.0f), 2.0f);
}

TEST(Arithmetic, exp_of_negative_is_as_close_as_promised) {
  double worst = 0;
  for (float x = -87.0f; x < 80.0f; x += 0.00071f) {
    const double error = std::fabs(exp_of_negative(x) / std::exp(-static_cast<double>(x)) - 1);
    worst = std::max(worst, error / (0x1p-22 + std::fabs(x) * 0x1p-24));
  }
  EXPECT_LT(worst, 1.0);
  EXPECT_GT(worst, 0.2);
  for (float x : {80.0f, 1e3f, 3e38f, INFINITY, NAN}) {
    EXPECT_GT(exp_of_negative(x), 0.0f) << x;
    EXPECT_LT(exp_of_negative(x), 0x1p-115f) << x;
  }
  EXPECT_EQ(exp_of_negative(0.0f), 1.0f);
}

TEST(Arithmetic, reciprocal_close_is_within_two_units_in_the_last_place) {
  double worst = 0;
  for (float x = 0x1p-125f; x <= 0x1p125f; x *= 1.0000931f) {
    const double exact = 1 / static_cast<double>(x);
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::fabs(reciprocal_close(x) - exact) / unit);
  }
  EXPECT_LT(worst, 2.0);
  EXPECT_GT(worst, 0.5);  // a correctly rounded one would be another function
}

TEST(Arithmetic, inverse_square_root_close_is_within_two_units_in_the_last_place) {
  double worst = 0;
  for (float x = 0x1p-126f; x <= 0x1p127f; x *= 1.0000931f) {
    const double exact = 1 / std::sqrt(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::fabs(inverse_square_root_close(x) - exact) / unit);
  }
  EXPECT_LT(worst, 2.0);
  EXPECT_GT(worst, 0.4);
  EXPECT_EQ(inverse_square_root_close(INFINITY), 0.0f);
  EXPECT_TRUE(std::isnan(inverse_square_root_close(NAN)));
  EXPECT_EQ(0.0f * inverse_square_root_close(0.0f), 0.0f);
}

TEST(Arithmetic, block_sum_adds_eights_in_order_then_pairs) {
  const auto parenthesise = [](auto&& sum, int count) {  // a sum whose order shows in its rounding
    std::mt19937_64 generator(3);
    std::uniform_real_distribution<float> value(0, 1);
    std::vector<float> terms(static_cast<std::size_t>(count));
    for (float& term : terms) term = value(generator);
    return std::pair{sum([&](float s, int i) { return s + terms[static_cast<std::size_t>(i)]; }),
                     terms};
  };
  const auto [sum, t] = parenthesise([](auto f) { return block_sum<32>(f); }, 32);
  float groups[4] = {};
  for (int i = 0; i < 32; ++i) groups[i / 8] = groups[i / 8] + t[static_cast<std::size_t>(i)];
  EXPECT_EQ(sum, (groups[0] + groups[1]) + (groups[2] + groups[3]));
  const auto [sum16, t16] = parenthesise([](auto f) { return block_sum<16>(f); }, 16);
  float low = 0, high = 0;
  for (std::size_t i = 0; i < 8; ++i) low += t16[i], high += t16[8 + i];
  EXPECT_EQ(sum16, low + high);
}

}  // namespace
}  // namespace microscale
