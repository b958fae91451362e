// The rounded logarithm against one computed in double precision and rounded once.
#include "formats/rounded_log2.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace microscale {
namespace {

// log2 in double is within 2^-52 of the value; near an integer its distance from the midpoint of
// two floats is at least 2^-30 of that, so this rounding is the correct one.
float log2_rounded_once(float x) { return static_cast<float>(std::log2(static_cast<double>(x))); }

void expect_equal(float x) {
  EXPECT_EQ(floor_of_rounded_log2(x), static_cast<int>(std::floor(log2_rounded_once(x)))) << x;
  EXPECT_EQ(ceil_of_rounded_log2(x), static_cast<int>(std::ceil(log2_rounded_once(x)))) << x;
}

TEST(RoundedLog2, equals_the_rounded_logarithm_next_to_every_power_of_two) {
  for (int exponent = -126; exponent <= 127; ++exponent) {
    const auto power = std::bit_cast<std::uint32_t>(std::ldexp(1.0f, exponent));
    for (std::uint32_t away = 0; away <= 100; ++away) {
      expect_equal(std::bit_cast<float>(power + away));
      if (exponent > -126) expect_equal(std::bit_cast<float>(power - away));
    }
  }
  for (std::uint32_t away = 0; away <= 100; ++away)
    expect_equal(std::bit_cast<float>(0x7F7FFFFFu - away));
}

TEST(RoundedLog2, equals_the_rounded_logarithm_of_every_bf16) {
  for (std::uint32_t bits = 1; bits < 0x7F80u; ++bits)
    expect_equal(std::bit_cast<float>(bits << 16));
}

TEST(RoundedLog2, equals_the_rounded_logarithm_of_subnormals) {
  for (std::uint32_t bits = 1; bits < 0x800000u; bits += bits / 64 + 1)
    expect_equal(std::bit_cast<float>(bits));
  for (int shift = 0; shift < 23; ++shift) expect_equal(std::bit_cast<float>(1u << shift));
}

}  // namespace
}  // namespace microscale
