#include "checkpoint/rescale.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "formats/elements.hpp"

namespace microscale {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::vector<double> values_of(const Bytes& codes, const Bytes& scales, double global) {
  std::vector<double> values;
  for (std::size_t i = 0; i < scales.size() * 16; ++i) {
    const std::uint8_t code = static_cast<std::uint8_t>(codes[i / 2] >> (i % 2 * 4) & 15);
    values.push_back(E2M1::decode(code) * E4M3::decode(scales[i / 16]) * global);
  }
  return values;
}

TEST(Rescale, knows_which_scales_a_ratio_leaves_exact) {
  EXPECT_EQ(exact_scale(0x38, 0.5), 0x30);  // 1 becomes 1/2
  EXPECT_EQ(exact_scale(0x38, 2), 0x40);
  EXPECT_EQ(exact_scale(0x00, 0.3), 0x00);
  EXPECT_EQ(exact_scale(0x7E, 2), -1);      // 896 is beyond 448
  EXPECT_EQ(exact_scale(0x01, 0.5), -1);    // below the least subnormal
  EXPECT_EQ(exact_scale(0x02, 0.5), 0x01);  // subnormals halve while they are even
  EXPECT_EQ(exact_scale(0x09, 0.25), -1);   // 2^-6 * 1.125 loses a bit
  EXPECT_EQ(exact_scale(0x38, 0.8), -1);
  EXPECT_EQ(exact_scale(0x38, 1.25), 0x3A);  // a short fraction fits as well
  CodeHistogram scales{};
  scales[0x38] = 5;
  scales[0x01] = 3;
  scales[0x00] = 7;
  EXPECT_EQ(inexact_blocks(scales, 0.5), 3u);
  EXPECT_EQ(inexact_blocks(scales, 0.8), 8u);
  EXPECT_EQ(inexact_blocks(scales, 1), 0u);
}

TEST(Rescale, a_power_of_two_changes_no_code) {
  std::mt19937 random(1);
  Bytes codes(8 * 100), scales(100);
  for (auto& byte : codes) byte = static_cast<std::uint8_t>(random());
  for (auto& scale : scales) scale = static_cast<std::uint8_t>(0x20 + random() % 0x40);
  const Bytes codes_before = codes;
  const auto before = values_of(codes, scales, 1);
  const RescaleCounts counts = rescale_blocks(codes, scales, 0.25);
  EXPECT_EQ(codes, codes_before);
  EXPECT_EQ(values_of(codes, scales, 4), before);
  EXPECT_EQ(counts.blocks, 100);
  EXPECT_EQ(counts.scales_changed, 100);
  EXPECT_EQ(counts.codes_changed, 0);
  EXPECT_EQ(counts.blocks_inexact, 0);
  EXPECT_EQ(counts.squared_change, 0);
}

TEST(Rescale, another_ratio_gives_the_nearest_block_there_is) {
  std::mt19937 random(2);
  Bytes codes(8 * 500), scales(500);
  for (auto& byte : codes) byte = static_cast<std::uint8_t>(random());
  for (auto& scale : scales) scale = static_cast<std::uint8_t>(0x10 + random() % 0x60);
  const double ratio = 0.7931;
  const auto before = values_of(codes, scales, 1);
  const Bytes codes_before = codes;
  const RescaleCounts counts = rescale_blocks(codes, scales, ratio);
  const auto after = values_of(codes, scales, 1 / ratio);
  double change = 0, all = 0;
  std::int64_t changed_codes = 0;
  for (std::size_t block = 0; block < scales.size(); ++block) {
    // No scale and codes of the whole table come nearer to the block.
    double own = 0, best = 1e300;
    for (std::size_t i = 0; i < 16; ++i) {
      own += std::pow(after[block * 16 + i] - before[block * 16 + i], 2);
      all += std::pow(before[block * 16 + i], 2);
    }
    for (int scale = 0; scale <= E4M3::max_code; ++scale) {
      double error = 0;
      for (std::size_t i = 0; i < 16; ++i) {
        double nearest = 1e300;
        for (int code = 0; code < 16; ++code) {
          const double value = E2M1::decode(static_cast<std::uint8_t>(code)) *
                               E4M3::decode(static_cast<std::uint8_t>(scale)) / ratio;
          nearest = std::min(nearest, std::pow(value - before[block * 16 + i], 2));
        }
        error += nearest;
      }
      best = std::min(best, error);
    }
    // Scales far away may come a hair nearer; those around the exact one are what is looked at.
    EXPECT_LE(own, best * 2 + 1e-12) << block;
    change += own;
  }
  for (std::size_t i = 0; i < codes.size(); ++i) {
    changed_codes += (codes[i] & 15) != (codes_before[i] & 15);
    changed_codes += (codes[i] >> 4) != (codes_before[i] >> 4);
  }
  EXPECT_EQ(counts.codes_changed, changed_codes);
  EXPECT_GT(counts.blocks_inexact, 400);
  EXPECT_NEAR(counts.squared_change, change, 1e-9 * change);
  EXPECT_NEAR(counts.squared_before, all, 1e-9 * all);
  EXPECT_LT(change / all, 2e-3);
}

TEST(Rescale, keeps_zero_blocks_and_loses_no_scale_over_codes) {
  Bytes codes(16, 0x80), scales{0x00, 0x01};  // a zero block; one of the least scale
  std::fill(codes.begin() + 8, codes.end(), std::uint8_t{0x71});
  const RescaleCounts counts = rescale_blocks(codes, scales, 1.0 / 64);
  EXPECT_EQ(scales[0], 0x00);
  EXPECT_EQ(codes[0], 0x80);
  // The block of 6 and 1/2 times 2^-15 is zero now, or has a scale: never codes without one.
  const bool zero = scales[1] == 0;
  for (std::size_t i = 8; i < 16; ++i) EXPECT_TRUE(!zero || (codes[i] & 0x77) == 0);
  EXPECT_EQ(counts.blocks_inexact, 1);
}

}  // namespace
}  // namespace microscale
