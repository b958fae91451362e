// The E8M0 rules on every BF16 amax, against their definitions in real arithmetic.
#include "formats/e8m0.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "formats/elements.hpp"

namespace microscale {
namespace {

int clamp_byte(int exponent) { return std::clamp(exponent + 127, 0, 254); }

// floor(log2 x) and ceil(log2 x) for positive finite x, exactly.
int floor_log2(double x) { return std::ilogb(x); }
int ceil_log2(double x) { return std::ilogb(x) + (std::ldexp(1.0, std::ilogb(x)) != x); }

// amax rounded to 1 + mantissa_bits significant bits, to nearest; ties up or down.
double round_significand(double amax, int mantissa_bits, bool ties_up) {
  const double unit = std::ldexp(1.0, std::ilogb(amax) - mantissa_bits);
  const double steps = amax / unit, whole = std::floor(steps);
  const double rest = steps - whole;
  return (whole + (rest > 0.5 || (rest == 0.5 && ties_up))) * unit;
}

template <class Codec>
int model_byte(ScaleRule rule, double amax) {
  if (amax == 0) return rule == ScaleRule::amax_ceil ? 127 : 0;
  switch (rule) {
    case ScaleRule::ceil:
      return clamp_byte(ceil_log2(amax) - Codec::emax);
    case ScaleRule::rceil:
      return clamp_byte(ceil_log2(amax / Codec::max_value));
    case ScaleRule::even:
      return clamp_byte(floor_log2(round_significand(amax, Codec::mantissa_bits, true)) -
                        Codec::emax);
    case ScaleRule::even_down:
      return clamp_byte(floor_log2(round_significand(amax, Codec::mantissa_bits, false)) -
                        Codec::emax);
    case ScaleRule::even_1bit:
      return clamp_byte(floor_log2(round_significand(amax, 1, true)) - Codec::emax);
    case ScaleRule::amax_ceil:
      return clamp_byte(ceil_log2(amax));
    case ScaleRule::amax_floor:
      return clamp_byte(floor_log2(amax));
    default:
      return clamp_byte(floor_log2(amax) - Codec::emax);
  }
}

template <class Codec>
class E8M0Test : public ::testing::Test {};
using Codecs = ::testing::Types<E2M1, E4M3, E5M2, E2M3, E3M2, Int8>;
TYPED_TEST_SUITE(E8M0Test, Codecs);

// amax / max in double is correctly rounded, and a quotient that close to a power of two from above
// cannot round down to it: both have at most 24 and 7 significant bits.
TYPED_TEST(E8M0Test, rules_equal_their_definition_for_every_bf16_amax_and_its_neighbours) {
  for (ScaleRule rule : scale_rules(Format::mxfp4)) {
    for (unsigned bits = 0; bits < 0x7F80; ++bits) {
      const float exact = bf16_to_float(static_cast<std::uint16_t>(bits));
      for (float amax : {exact, std::nextafter(exact, INFINITY), std::nextafter(exact, 0.0f)}) {
        if (!std::isfinite(amax)) continue;
        ASSERT_EQ(int{e8m0_from_amax<TypeParam>(rule, amax)}, model_byte<TypeParam>(rule, amax))
            << to_string(rule) << " of " << std::hexfloat << amax;
      }
    }
  }
}

TYPED_TEST(E8M0Test, rceil_is_the_smallest_scale_that_saturates_nothing) {
  for (unsigned bits = 1; bits < 0x7F80; ++bits) {
    const double amax = bf16_to_float(static_cast<std::uint16_t>(bits));
    const int byte = e8m0_from_amax<TypeParam>(ScaleRule::rceil, static_cast<float>(amax));
    if (byte < 254) {
      EXPECT_LE(amax / std::ldexp(1.0, byte - 127), TypeParam::max_value);
    }
    if (byte > 0) {
      EXPECT_GT(amax / std::ldexp(1.0, byte - 128), TypeParam::max_value);
    }
  }
}

TEST(E8M0, decodes_every_byte_and_inverts_exactly) {
  for (int byte = 0; byte < 255; ++byte) {
    EXPECT_EQ(decode_e8m0(static_cast<std::uint8_t>(byte)), std::ldexp(1.0f, byte - 127));
    EXPECT_EQ(inverse_e8m0(static_cast<std::uint8_t>(byte)), std::ldexp(1.0f, 127 - byte));
  }
  EXPECT_TRUE(std::isnan(decode_e8m0(255)));
}

// Bytes worked out by several tools for the same amax; the columns are our names for their rules.
TEST(E8M0, known_mxfp4_bytes) {
  struct Row {
    float amax;
    int floor, ceil, even, even_down, rceil;
  };
  const Row rows[] = {
      {0.0f, 0, 0, 0, 0, 0},
      {0x1p-149f, 0, 0, 0, 0, 0},
      {0x1p-126f, 0, 0, 0, 0, 0},
      {1.5f, 125, 126, 125, 125, 125},
      {1.75f, 125, 126, 126, 125, 126},
      {6.0f, 127, 128, 127, 127, 127},
      {std::nextafter(6.0f, 7.0f), 127, 128, 127, 127, 128},
      {7.0f, 127, 128, 128, 127, 128},
      {std::nextafter(7.0f, 8.0f), 127, 128, 128, 128, 128},
      {8.0f, 128, 128, 128, 128, 128},
      {3.40282347e38f, 252, 253, 253, 253, 253},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(e8m0_from_amax<E2M1>(ScaleRule::floor, row.amax), row.floor) << row.amax;
    EXPECT_EQ(e8m0_from_amax<E2M1>(ScaleRule::ceil, row.amax), row.ceil) << row.amax;
    EXPECT_EQ(e8m0_from_amax<E2M1>(ScaleRule::even, row.amax), row.even) << row.amax;
    EXPECT_EQ(e8m0_from_amax<E2M1>(ScaleRule::even_down, row.amax), row.even_down) << row.amax;
    EXPECT_EQ(e8m0_from_amax<E2M1>(ScaleRule::rceil, row.amax), row.rceil) << row.amax;
  }
}

TEST(E8M0, known_mxfp8_bytes) {
  EXPECT_EQ(e8m0_from_amax<E4M3>(ScaleRule::floor, 448.0f), 127);
  EXPECT_EQ(e8m0_from_amax<E4M3>(ScaleRule::rceil, 448.0f), 127);
  EXPECT_EQ(e8m0_from_amax<E4M3>(ScaleRule::ceil, 448.0f), 128);
  EXPECT_EQ(e8m0_from_amax<E4M3>(ScaleRule::even_1bit, 448.0f), 128);
  EXPECT_EQ(e8m0_from_amax<E4M3>(ScaleRule::rceil, std::nextafter(448.0f, 449.0f)), 128);
  EXPECT_EQ(e8m0_from_amax<E4M3>(ScaleRule::floor, 480.0f), 127);
  EXPECT_EQ(e8m0_from_amax<E4M3>(ScaleRule::even, 480.0f), 127);
  EXPECT_EQ(e8m0_from_amax<E4M3>(ScaleRule::rceil, 480.0f), 128);
  EXPECT_EQ(e8m0_from_amax<E4M3>(ScaleRule::even, 496.0f), 128);  // a tie, upwards
  EXPECT_EQ(e8m0_from_amax<E4M3>(ScaleRule::even_down, 496.0f), 127);
  EXPECT_EQ(e8m0_from_amax<E4M3>(ScaleRule::even, 511.0f), 128);
}

}  // namespace
}  // namespace microscale
