#include "checkpoint/cast_blocks.hpp"

#include <gtest/gtest.h>

#include <climits>

#include "checkpoint/containers/coded_models.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

using testing::Bytes;

std::vector<float> values_of(const Bytes& codes, const Bytes& scales, std::int64_t block,
                             float global_scale = 0) {
  std::vector<float> values;
  for (std::size_t i = 0; i < codes.size() * 2; ++i) {
    const std::uint8_t code = i % 2 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
    const std::uint8_t scale = scales[i / static_cast<std::size_t>(block)];
    const float step =
        global_scale == 0 ? testing::e8m0_value(scale) : testing::e4m3_value(scale) * global_scale;
    values.push_back(testing::e2m1_value(code) * step);
  }
  return values;
}

float global_for(const Bytes& codes, const Bytes& scales) {
  return nvfp4_global_scale(amax_for_exponent(largest_exponent(codes, scales)));
}

TEST(CastBlocks, global_scale_is_the_power_of_two_that_puts_the_largest_scale_at_256) {
  for (const int exponent : {-120, -30, -8, 0, 5, 100}) {
    EXPECT_EQ(nvfp4_global_scale(amax_for_exponent(exponent)),
              std::ldexp(1.0f, std::max(exponent - 8, -110)))
        << exponent;
  }
}

TEST(CastBlocks, largest_exponent_is_of_blocks_that_hold_a_value) {
  Bytes codes = testing::random_bytes(16 * 3, 1, 0x11, 0x77);
  EXPECT_EQ(largest_exponent(codes, Bytes{120, 130, 125}), 3);
  std::fill(codes.begin() + 16, codes.begin() + 32, std::uint8_t{0x80});  // 0 and -0
  EXPECT_EQ(largest_exponent(codes, Bytes{120, 130, 125}), -2);
  EXPECT_EQ(largest_exponent(Bytes(32), Bytes{120, 130}), INT_MIN);
}

// Every exponent from the largest down: 18 fit with any codes, and their codes are the same bytes.
TEST(CastBlocks, scales_within_reach_keep_every_code) {
  Bytes codes = testing::random_bytes(16 * 18, 2);
  Bytes scales;
  for (int i = 0; i < 18; ++i) scales.push_back(static_cast<std::uint8_t>(130 - i));
  const Bytes before = codes;
  const float global = global_for(codes, scales);
  Bytes to(36);
  const CastBlocks cast = cast_to_nvfp4(codes, scales, global, to);
  EXPECT_EQ(cast.searched, 0);
  EXPECT_EQ(cast.blocks, 36);
  EXPECT_EQ(codes, before);
  EXPECT_EQ(values_of(codes, to, 16, global), values_of(before, scales, 32));
}

TEST(CastBlocks, codes_move_where_e2m1_has_them_and_others_are_searched) {
  // 20 powers of two below the largest: two too many.
  Bytes codes = testing::random_bytes(16, 3);  // of the largest
  const Bytes even(8, 0x64), odd(8, 0x63);     // 2 and 4 can be halved twice, 1.5 cannot
  codes.insert(codes.end(), even.begin(), even.end());
  codes.insert(codes.end(), odd.begin(), odd.end());
  const Bytes before = codes, scales{140, 121};
  const float global = global_for(codes, scales);
  Bytes to(4);
  const CastBlocks cast = cast_to_nvfp4(codes, scales, global, to);
  EXPECT_EQ(cast.searched, 1);
  EXPECT_EQ(cast.error.elements, 16u);
  EXPECT_GT(cast.error.squared_error, 0);
  auto wanted = values_of(before, scales, 32), found = values_of(codes, to, 16, global);
  wanted.resize(48);
  found.resize(48);
  EXPECT_EQ(found, wanted);
}

// What no scale of E4M3 is small enough for still gets the nearest values of NVFP4.
TEST(CastBlocks, searched_blocks_are_as_quantize_makes_them) {
  Bytes codes = testing::random_bytes(32, 5);
  const Bytes before = codes, scales{150, 122};
  const float global = global_for(codes, scales);
  Bytes to(4);
  const CastBlocks cast = cast_to_nvfp4(codes, scales, global, to);
  EXPECT_EQ(cast.searched, 2);
  const std::vector<float> values = values_of(before, scales, 32);
  Bytes wanted_codes(8), wanted_scale(1);
  quantize_into({.input = {values.data() + 32, DType::f32, 1, 16, 16},
                 .format = Format::nvfp4,
                 .tensor_amax = 2688 * global},
                wanted_codes, wanted_scale);
  EXPECT_TRUE(std::equal(wanted_codes.begin(), wanted_codes.end(), codes.begin() + 16));
  EXPECT_EQ(to[2], wanted_scale[0]);
}

TEST(CastBlocks, zeros_need_no_scale) {
  Bytes codes(32, 0x80);
  const Bytes scales{254, 0};
  Bytes to(4);
  EXPECT_EQ(cast_to_nvfp4(codes, scales, 1.0f, to).searched, 0);
  for (const float value : values_of(codes, to, 16, 1.0f)) EXPECT_EQ(value, 0.0f);
}

}  // namespace
}  // namespace microscale
