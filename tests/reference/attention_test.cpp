// The FP4 modes' scalar model: what it makes of queries and probabilities, value by value.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/attention_numerics.hpp"

namespace microscale {
namespace {

TEST(AttentionNumerics, representable_queries_stay_as_they_are) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    std::vector<double> row;
    for (int i = 0; i < 64; ++i)
      row.push_back(
          std::vector<double>{0, 0.5, 1, 1.5, 2, 3, 4, -6}[static_cast<std::size_t>(i % 8)] *
          0x1p-7);
    const std::vector<double> before = row;
    round_query(format, false, row.data(), 64);
    EXPECT_EQ(row, before);
  }
}

TEST(AttentionNumerics, nvfp4_queries_have_a_power_of_two_for_the_row) {
  // Largest 1000 -> r = 1/2 (1000 / r = 2000 in [2^10, 2^11)). Block 0: scale E4M3 of 2000 / 6 =
  // 333.3 -> 320, codes 2000 / 320 = 6.25 -> 6, 150 -> 300 / 320 = 0.94 -> 1.
  std::vector<double> row(32);
  row[0] = 1000, row[1] = 150;
  row[16] = 0.001;  // block 1: 0.002 / 6 is below half the smallest E4M3: lost
  round_query(Format::nvfp4, false, row.data(), 32);
  EXPECT_EQ(row[0], 960);
  EXPECT_EQ(row[1], 160);
  EXPECT_EQ(row[16], 0);
  for (const double tiny : {0x1p-40, 1.0, 0x1p60}) {  // the same at every magnitude
    std::vector<double> scaled(32);
    scaled[0] = 1000 * tiny, scaled[1] = 150 * tiny;
    round_query(Format::nvfp4, false, scaled.data(), 32);
    EXPECT_EQ(scaled[0], 960 * tiny);
  }
}

TEST(AttentionNumerics, second_terms_take_the_rest) {
  std::vector<double> one, two;
  double error_one = 0, error_two = 0, energy = 0;
  for (int i = 0; i < 256; ++i) one.push_back(std::sin(i * 1.7) * std::exp(std::cos(i * 0.3)));
  two = one;
  const std::vector<double> exact = one;
  round_query(Format::nvfp4, false, one.data(), 256);
  round_query(Format::nvfp4, true, two.data(), 256);
  for (std::size_t i = 0; i < 256; ++i) {
    energy += exact[i] * exact[i];
    error_one += std::pow(one[i] - exact[i], 2);
    error_two += std::pow(two[i] - exact[i], 2);
  }
  EXPECT_GT(std::sqrt(error_one / energy), 0.05);
  EXPECT_LT(std::sqrt(error_one / energy), 0.12);
  EXPECT_GT(std::sqrt(error_two / energy), 0.002);
  EXPECT_LT(std::sqrt(error_two / energy), 0.012);
}

TEST(AttentionNumerics, two_level_probabilities_are_divided_by_the_rounded_scale) {
  // Position 0 of a sequence at 1: t = 2688, scale 448, code 6: exact. Its neighbours in the block
  // are in steps of 448 / 2 / 2688 = 1/12 near 0.
  std::vector<double> p(20, 0.1);
  p[0] = 1;
  round_probabilities(ProbabilityRule::two_level, Format::nvfp4, false, 0, p.data(), 20);
  EXPECT_EQ(p[0], 1);
  EXPECT_EQ(p[1], 1.0 / 12);
  // Positions 16 to 19 are a block of their own: largest t = 268.8, / 6 = 44.8 -> 44; code of
  // 268.8 / 44 = 6.1 is 6: 264 / 2688.
  EXPECT_EQ(p[17], 264.0 / 2688);
  // The same positions given as a tile that begins inside the block.
  std::vector<double> tile(4, 0.1);
  round_probabilities(ProbabilityRule::two_level, Format::nvfp4, false, 14, tile.data(), 4);
  EXPECT_EQ(tile[0], 264.0 / 2688);
  EXPECT_EQ(tile[3], 264.0 / 2688);
}

TEST(AttentionNumerics, a_sink_leaves_small_probabilities_alive) {
  std::vector<double> p(32, 1e-5);
  p[0] = 1;
  std::vector<double> one = p, two = p;
  round_probabilities(ProbabilityRule::two_level, Format::nvfp4, false, 0, one.data(), 32);
  EXPECT_EQ(one[5], 0);              // beside the sink
  EXPECT_NEAR(one[20], 1e-5, 2e-6);  // 2688e-5 / 6 is an E4M3 subnormal
  round_probabilities(ProbabilityRule::two_level, Format::nvfp4, true, 0, two.data(), 32);
  EXPECT_NEAR(two[5], 1e-5, 2e-6);
  std::vector<double> mx = p, fp8 = p;
  round_probabilities(ProbabilityRule::two_level, Format::mxfp4, false, 0, mx.data(), 32);
  EXPECT_EQ(mx[0], 1);
  round_probabilities(ProbabilityRule::fp8, Format::nvfp4, false, 0, fp8.data(), 32);
  EXPECT_EQ(fp8[0], 1);
  EXPECT_NEAR(fp8[5], 1e-5, 3e-6);
  round_probabilities(ProbabilityRule::exact, Format::nvfp4, false, 0, p.data(), 32);
  EXPECT_EQ(p[5], 1e-5);
}

}  // namespace
}  // namespace microscale
