// Every number the articles behind this project work out by hand, and where the article itself is
// wrong.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "formats/block_quantizer.hpp"
#include "layouts/container.hpp"
#include "layouts/tiled_128x4.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

std::uint8_t e2m1(float value, Rounding rounding = Rounding::nearest_even) {
  return E2M1::encode(value, rounding);
}
std::uint8_t floor_byte(float amax) { return e8m0_from_amax<E2M1>(ScaleRule::floor, amax); }
std::uint8_t in_container(float value) {
  return container::pack(e2m1(value, Rounding::nearest_away));
}

// MXFP4 quantizer article, sections 4 to 7.
TEST(MxFp4QuantizerArticle, stored_scales) {
  EXPECT_EQ(decode_e8m0(120), 0x1p-7f);
  EXPECT_EQ(decode_e8m0(124), 0.125f);
  EXPECT_EQ(decode_e8m0(127), 1.0f);
  EXPECT_EQ(decode_e8m0(130), 8.0f);
  EXPECT_EQ(decode_e8m0(137), 1024.0f);
}
TEST(MxFp4QuantizerArticle, amax_0_945_gives_byte_124_and_clips_to_0_75) {
  EXPECT_EQ(floor_byte(0.945f), 124);
  EXPECT_FLOAT_EQ(0.945f * inverse_e8m0(124), 7.56f);
  EXPECT_EQ(E2M1::decode(e2m1(7.56f)) * decode_e8m0(124), 0.75f);
}
TEST(MxFp4QuantizerArticle, amax_25_gives_byte_129_and_clips_to_24) {
  EXPECT_EQ(floor_byte(25.0f), 129);
  EXPECT_EQ(25.0f * inverse_e8m0(129), 6.25f);
  EXPECT_EQ(E2M1::decode(e2m1(6.25f)) * decode_e8m0(129), 24.0f);
  EXPECT_EQ(E2M1::decode(e2m1(25.0f / 8)) * 8, 24.0f);  // under the next scale: 3 * 8
}
// The article says that 1.0 / 4 = 0.25 rounds to 0.5, and argues for floor from it. Under nearest
// even it is a tie that goes to 0, under ties-away to 0.5.
TEST(MxFp4QuantizerArticle, a_quarter_is_a_tie_and_rounds_to_zero_not_to_a_half) {
  EXPECT_EQ(e2m1(0.25f), 0);
  EXPECT_EQ(e2m1(0.25f, Rounding::nearest_away), 1);
  EXPECT_EQ(e2m1(0.125f), 0);
}
TEST(MxFp4QuantizerArticle, a_150_in_a_scale_of_32) {
  EXPECT_EQ(150.0f / 32, 4.6875f);
  EXPECT_EQ(E2M1::decode(e2m1(150.0f / 32)), 4.0f);
  EXPECT_EQ(floor_byte(150.0f), 127 + 5);
}
TEST(MxFp4QuantizerArticle, four_point_eight_is_nearer_to_four) {
  EXPECT_FLOAT_EQ(0.6f * inverse_e8m0(124), 4.8f);
  EXPECT_EQ(e2m1(4.8f), 6);
}
TEST(MxFp4QuantizerArticle, the_seven_midpoints_go_to_the_even_code) {
  constexpr std::array midpoints{0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  constexpr std::array even{0, 2, 2, 4, 4, 6, 6};
  constexpr std::array away{1, 2, 3, 4, 5, 6, 7};
  constexpr std::array toward_zero{0, 1, 2, 3, 4, 5, 6};
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(e2m1(midpoints[i]), even[i]);
    EXPECT_EQ(e2m1(midpoints[i], Rounding::nearest_away), away[i]);
    EXPECT_EQ(e2m1(midpoints[i], Rounding::nearest_toward_zero), toward_zero[i]);
    EXPECT_EQ(e2m1(std::nextafter(midpoints[i], 0.0f)), static_cast<int>(i));
    EXPECT_EQ(e2m1(std::nextafter(midpoints[i], 9.0f)), static_cast<int>(i) + 1);
  }
}
TEST(MxFp4QuantizerArticle, scale_bytes_of_its_matrices) {
  const BlockShape shape{.rows = 1024, .cols = 4096, .format = Format::mxfp4};
  EXPECT_EQ(shape.scale_bytes(), 131072);
  const BlockShape large{.rows = 4096, .cols = 8192, .format = Format::mxfp4};
  EXPECT_EQ(large.scale_bytes(), 1048576);
}
TEST(MxFp4QuantizerArticle, the_even_element_is_in_the_low_nibble) {
  std::array<float, 32> values{};
  values[0] = 6.0f, values[1] = -1.0f;
  QuantizeOptions o{.input = {values.data(), DType::f32, 1, 32, 32}, .format = Format::mxfp4};
  o.numerics.scale_rule = ScaleRule::floor;
  EXPECT_EQ(quantize(o).codes()[0], 0xA7);
}
TEST(MxFp4QuantizerArticle, e3m0_and_nf4_are_as_described) {
  constexpr std::array e3m0{0.25f, 0.5f, 1.0f, 2.0f, 4.0f, 8.0f, 16.0f};
  for (std::size_t i = 0; i < 7; ++i)
    EXPECT_EQ(E3M0::decode(static_cast<std::uint8_t>(i + 1)), e3m0[i]);
  EXPECT_NE(E3M0::decode(E3M0::encode(1.5f, Rounding::nearest_even)), 1.5f);
  EXPECT_LT(NF4::decode(8) - NF4::decode(7), NF4::decode(15) - NF4::decode(14));
}

// Bits-and-kernels article, part 1 and 3.
TEST(BitsArticle, six_is_0x40C00000_and_2_3_becomes_2) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(6.0f), 0x40C00000u);
  EXPECT_EQ(E2M1::decode(e2m1(2.3f)), 2.0f);
}
TEST(BitsArticle, amax_24_is_divided_by_4) {
  EXPECT_EQ(floor_byte(24.0f), 127 + 2);
  EXPECT_EQ(E2M1::decode(e2m1(24.0f * inverse_e8m0(129))) * 4, 24.0f);
}
// The article subtracts 2 from the exponent field without a floor, so a zero block wraps to byte
// 254; and it gives 2^128 as the value of byte 255, which is NaN.
TEST(BitsArticle, a_zero_block_does_not_wrap_and_255_is_nan) {
  EXPECT_EQ(static_cast<std::uint8_t>(0 - 2), 254);
  EXPECT_EQ(floor_byte(0.0f), 0);
  EXPECT_TRUE(std::isnan(decode_e8m0(255)));
}
TEST(BitsArticle, its_ladder_is_ties_away_except_the_sign_of_zero) {
  for (float value = -7.0f; value <= 7.0f; value += 0.125f) {
    const float a = std::fabs(value);
    int index = 7;
    constexpr std::array midpoints{0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    for (int i = 6; i >= 0; --i)
      if (a < midpoints[static_cast<std::size_t>(i)]) index = i;
    EXPECT_EQ(e2m1(value, Rounding::nearest_away) & 7, index) << value;
  }
}
TEST(BitsArticle, a_tiny_negative_keeps_its_sign_as_minus_zero) { EXPECT_EQ(e2m1(-0.01f), 0x8); }
TEST(BitsArticle, the_global_scale_cancels_out_of_the_codes_but_for_rounding) {
  const float amax = 3.7f, block_amax = 1.9f, g = amax / 2688.0f;
  const std::uint8_t scale = nvfp4_nearest_scale(block_amax, nvfp4_scale_factor(g));
  EXPECT_NEAR(nvfp4_multiplier(scale, g), 6.0f / block_amax, 6.0f / block_amax / 16);
}
TEST(BitsArticle, byte_counts_per_element) {
  const BlockShape mx{.rows = 1 << 10, .cols = 1 << 16, .format = Format::mxfp4};
  const BlockShape nv{.rows = 1 << 10, .cols = 1 << 16, .format = Format::nvfp4};
  const double n = 1024.0 * 65536.0;
  EXPECT_DOUBLE_EQ((static_cast<double>(mx.code_bytes() + mx.scale_bytes())) / n, 0.53125);
  EXPECT_DOUBLE_EQ((static_cast<double>(nv.code_bytes() + nv.scale_bytes())) / n, 0.5625);
}

// Fused attention article, sections 5 and 6: the container and its own scale rule.
TEST(AttentionArticle, container_bytes) {
  EXPECT_EQ(in_container(1.0f), 0x08);
  EXPECT_EQ(in_container(-1.0f), 0x28);
  EXPECT_EQ(in_container(6.0f), 0x1C);
  EXPECT_EQ(container::unpack(0x22), 0x8);  // what 0x22 really holds: -0
  for (std::uint8_t code = 0; code < 16; ++code)
    EXPECT_EQ(container::unpack(container::pack(code)), code);
}
TEST(AttentionArticle, block_of_four_under_its_own_rule) {
  EXPECT_EQ(e8m0_from_amax<E2M1>(ScaleRule::amax_ceil, 12.0f), 0x83);
  constexpr std::array values{12.0f, 10.0f, 3.0f, -7.0f}, scaled{0.75f, 0.625f, 0.1875f, -0.4375f};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(values[i] * inverse_e8m0(0x83), scaled[i]);
  // It says that the four encode to different values; in fact 10 and -7 share a magnitude and 3 is
  // lost.
  EXPECT_EQ(e2m1(scaled[0]), 2);
  EXPECT_EQ(e2m1(scaled[1]), 1);
  EXPECT_EQ(e2m1(scaled[2]), 0);
  EXPECT_EQ(e2m1(scaled[3]), 0x9);
}
TEST(AttentionArticle, eight_and_one_give_256_after_scaling) {
  const auto a = e8m0_from_amax<E2M1>(ScaleRule::amax_ceil, 8.0f);
  const auto b = e8m0_from_amax<E2M1>(ScaleRule::amax_ceil, 1.0f);
  EXPECT_EQ(a, 0x82);
  EXPECT_EQ(b, 0x7F);
  const float product = E2M1::decode(e2m1(8.0f * inverse_e8m0(a))) * E2M1::decode(e2m1(1.0f));
  EXPECT_EQ(32 * product * decode_e8m0(a) * decode_e8m0(b), 256.0f);
  EXPECT_EQ(e8m0_from_amax<E2M1>(ScaleRule::amax_ceil, 0.0f), 127);
}
TEST(AttentionArticle, its_rule_reaches_only_codes_up_to_one) {
  for (float amax = 0.51f; amax < 100.0f; amax *= 1.07f) {
    const auto byte = e8m0_from_amax<E2M1>(ScaleRule::amax_ceil, amax);
    EXPECT_LE(E2M1::decode(e2m1(amax * inverse_e8m0(byte))), 1.0f);
  }
}
TEST(AttentionArticle, its_sixteen_codes) {
  constexpr std::array values{0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  for (std::uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(E2M1::decode(code), values[code]);
    EXPECT_EQ(E2M1::decode(code | 8), -values[code]);
  }
}

// MXFP8 article: the scale is amax / 448 rounded up; its added epsilon can lift an exact power of
// two.
TEST(MxFp8Article, scale_is_rounded_up_and_epsilon_lifts_an_exact_power) {
  EXPECT_EQ(e8m0_from_amax<E4M3>(ScaleRule::rceil, 448.0f), 127);
  const float lifted = std::fma(448.0f, 1.0f / 448.0f, 1e-7f);
  EXPECT_EQ(e8m0_from_amax<E2M1>(ScaleRule::amax_ceil, lifted), 128);
}
TEST(MxFp8Article, packed_scales_are_four_to_a_word) {
  EXPECT_EQ(tiled_128x4::offset(0, 3, 64) - tiled_128x4::offset(0, 0, 64), 3);
  EXPECT_EQ(tiled_128x4::offset(5, 4, 64) % 4, 0);
  const BlockShape shape{
      .rows = 16384, .cols = 16384, .format = Format::mxfp8_e4m3, .layout = Layout::tiled_128x4};
  EXPECT_EQ(shape.scale_bytes(), 16384 * 16384 / 32);
}

// GEMV/GEMM article: a product of two block scales overflows FP16 at 448 x 448.
TEST(GemmArticle, the_fp16_scale_product_overflows) {
  EXPECT_EQ(float_to_f16(448.0f * 448.0f), 0x7C00);
  EXPECT_GT(448.0f * 448.0f, 65504.0f);
}

}  // namespace
}  // namespace microscale
