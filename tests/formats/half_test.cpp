#include "formats/half.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace microscale {
namespace {

// g++'s _Float16 is an independent implementation (software on machines without F16C).
float widen(std::uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
std::uint16_t narrow(float value) {
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}

TEST(Half, every_f16_widens_exactly_and_narrows_back) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = f16_to_float(half);
    if (std::isnan(widen(half))) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(float_to_f16(value), canonical_nan_16);
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(widen(half)));
    ASSERT_EQ(float_to_f16(value), half);
  }
}

TEST(Half, narrowing_to_f16_rounds_to_nearest_even) {
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 4093) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_f16(value), narrow(value)) << std::hexfloat << value;
  }
  for (float value :
       {65504.0f, 65519.99f, 65520.0f, 0x1p-24f, 0x1p-25f, 0x1.000002p-25f, 0x1.8p-25f})
    EXPECT_EQ(float_to_f16(value), narrow(value)) << value;
}

TEST(Half, narrowing_to_bf16_rounds_to_nearest_even) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float low = bf16_to_float(static_cast<std::uint16_t>(bits));
    if (std::isnan(low)) {
      EXPECT_EQ(float_to_bf16(low), canonical_nan_16);
      continue;
    }
    ASSERT_EQ(float_to_bf16(low), bits);
    if ((bits & 0x7FFF) >= 0x7F7F) continue;
    const std::uint32_t exact = bits << 16;
    EXPECT_EQ(float_to_bf16(std::bit_cast<float>(exact | 0x7FFF)), bits);
    EXPECT_EQ(float_to_bf16(std::bit_cast<float>(exact | 0x8001)), bits + 1);
    EXPECT_EQ(float_to_bf16(std::bit_cast<float>(exact | 0x8000)), bits + (bits & 1));
  }
  EXPECT_EQ(float_to_bf16(3.4e38f), 0x7F80);  // beyond the largest BF16: infinity
}

}  // namespace
}  // namespace microscale
