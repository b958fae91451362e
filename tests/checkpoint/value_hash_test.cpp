#include "checkpoint/value_hash.hpp"

#include <gtest/gtest.h>

#include "checkpoint/containers/coded_models.hpp"

namespace microscale {
namespace {

using testing::Bytes;

std::uint64_t hash(const BlockCoding& coding, const Bytes& codes, const Bytes& scales,
                   std::int64_t first = 0, std::string_view name = "a.b") {
  return ValueHash(name, coding).of(first, codes, scales);
}

// MXFP4 and NVFP4 of the same values: E8M0 127 + e is 2^e, E4M3 (e + 7) << 3 the same.
TEST(ValueHash, is_of_the_values_and_not_of_what_holds_them) {
  const Bytes codes = testing::random_bytes(64, 3);
  const Bytes e8m0{127, 129, 124, 127};
  Bytes e4m3;
  for (const std::uint8_t scale : e8m0) {
    const auto byte = static_cast<std::uint8_t>((scale - 127 + 7) << 3);
    e4m3.insert(e4m3.end(), {byte, byte});
  }
  const std::uint64_t mxfp4 = hash({.format = Format::mxfp4}, codes, e8m0);
  EXPECT_EQ(hash({.format = Format::nvfp4}, codes, e4m3), mxfp4);
  // Four times the global scale, a quarter of each block scale.
  Bytes quarter = e4m3;
  for (std::uint8_t& scale : quarter) scale = static_cast<std::uint8_t>(scale - 16);
  EXPECT_EQ(hash({.format = Format::nvfp4, .multiplier = 4.0f}, codes, quarter), mxfp4);
  EXPECT_EQ(hash({.format = Format::nvfp4, .multiplier = 4.0f, .divisor = 0.25f}, codes, quarter),
            mxfp4);
  // Half of the codes under twice the scale: 1, 2, 3, 4, 6 and zeros.
  const Bytes full{0x42, 0x65, 0x97, 0xAC, 0xE0, 0x08, 0x77, 0x22};
  const Bytes half{0x21, 0x43, 0x95, 0x9A, 0xC0, 0x08, 0x55, 0x11};
  // 0x9 is -0.5: half of it is no code, so it stands for itself in neither.
  Bytes whole_full = full, whole_half = half;
  whole_full[2] = 0x47;
  whole_half[2] = 0x25;
  EXPECT_EQ(hash({.format = Format::nvfp4}, whole_full, {0x30}),
            hash({.format = Format::nvfp4}, whole_half, {0x38}));
  EXPECT_NE(hash({.format = Format::nvfp4}, full, {0x30}),
            hash({.format = Format::nvfp4}, half, {0x38}));
}

TEST(ValueHash, zeros_are_zeros_under_any_scale_and_keep_their_signs) {
  const BlockCoding coding{.format = Format::nvfp4};
  Bytes zeros(8), signs(8);
  signs[3] = 0x80;
  EXPECT_EQ(hash(coding, zeros, {0x30}), hash(coding, zeros, {0x48}));
  EXPECT_EQ(hash(coding, zeros, {0x00}), hash(coding, zeros, {0x48}));
  EXPECT_EQ(hash(coding, Bytes(8, 0x11), {0x00}), hash(coding, zeros, {0x48}));
  EXPECT_NE(hash(coding, signs, {0x30}), hash(coding, zeros, {0x30}));
}

TEST(ValueHash, changes_with_every_value_its_place_and_the_matrix) {
  const BlockCoding nvfp4{.format = Format::nvfp4}, mxfp8{.format = Format::mxfp8_e4m3};
  const Bytes codes = testing::random_bytes(32, 4, 0x11, 0x76), scales{0x30, 0x38, 0x30, 0x40};
  const std::uint64_t wanted = hash(nvfp4, codes, scales);
  std::set<std::uint64_t> seen{wanted};
  for (std::size_t i = 0; i < 64; ++i) {
    Bytes other = codes;
    other[i / 2] ^= static_cast<std::uint8_t>(i % 2 ? 0x80 : 0x01);
    EXPECT_TRUE(seen.insert(hash(nvfp4, other, scales)).second) << i;
  }
  for (std::size_t i = 0; i < scales.size(); ++i) {
    Bytes other = scales;
    ++other[i];
    EXPECT_TRUE(seen.insert(hash(nvfp4, codes, other)).second) << i;
  }
  EXPECT_TRUE(seen.insert(hash(nvfp4, codes, scales, 64)).second);
  EXPECT_TRUE(seen.insert(hash(nvfp4, codes, scales, 0, "a.c")).second);
  EXPECT_TRUE(seen.insert(hash({Format::nvfp4, std::nextafter(1.0f, 2.0f)}, codes, scales)).second);
  EXPECT_TRUE(seen.insert(hash(mxfp8, codes, {120})).second);
  // The sum of the parts, in any order.
  const Bytes front(codes.begin(), codes.begin() + 8), back(codes.begin() + 8, codes.end());
  EXPECT_EQ(hash(nvfp4, back, {0x38, 0x30, 0x40}, 16) + hash(nvfp4, front, {0x30}), wanted);
}

// A positive scale of 0: its product with the global scale is below FP32's smallest number.
TEST(ValueHash, a_scale_that_underflows_stands_for_zeros) {
  const BlockCoding tiny{.format = Format::nvfp4, .multiplier = 0x1p-145f};
  EXPECT_EQ(hash(tiny, Bytes(8, 0x11), {0x01}), hash(tiny, Bytes(8), {0x38}));
}

TEST(ValueHash, finds_nan) {
  const Bytes codes(64, 0x7F);
  EXPECT_EQ(first_nan(Format::mxfp4, codes, Bytes{0, 254, 255, 255}), 2);
  EXPECT_EQ(first_nan(Format::mxfp4, {}, Bytes{0, 254, 255, 255}), 2);
  EXPECT_EQ(first_nan(Format::mxfp4, codes, Bytes{0, 254, 1, 1}), -1);
  EXPECT_EQ(first_nan(Format::nvfp4, codes, Bytes{0, 0x7E, 1, 1, 1, 1, 1, 0x7F}), 7);
  Bytes eight(64);
  EXPECT_EQ(first_nan(Format::mxfp8_e4m3, eight, Bytes{1, 1}), -1);
  eight[40] = 0xFF;
  EXPECT_EQ(first_nan(Format::mxfp8_e4m3, eight, Bytes{1, 1}), 1);
}

TEST(ValueHash, of_a_stack_is_that_of_its_experts_one_by_one) {
  constexpr std::int64_t cols = 64, rows = 6;
  const BlockCoding coding{.format = Format::mxfp4};
  const Bytes codes = testing::random_bytes(rows * cols / 2, 7);
  const Bytes scales = testing::random_bytes(rows * cols / 32, 8, 120, 130);
  MatrixSlice stack{"gate_up", rows, cols};
  stack.turns = {"e.gate", "e.up"};
  std::uint64_t tiles = 0, modules = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto of = [&](const Bytes& bytes, std::int64_t each) {
      return std::span(bytes).subspan(static_cast<std::size_t>(row * each),
                                      static_cast<std::size_t>(each));
    };
    const auto row_codes = of(codes, cols / 2), row_scales = of(scales, cols / 32);
    tiles += hash_of_tile(stack, {row, 1, 0, cols}, coding, row_codes, row_scales);
    const MatrixSlice module{row % 2 ? "e.up" : "e.gate", rows / 2, cols};
    modules += hash_of_tile(module, {row / 2, 1, 0, cols}, coding, row_codes, row_scales);
  }
  EXPECT_EQ(hash_of_tile(stack, {0, rows, 0, cols}, coding, codes, scales), tiles);
  EXPECT_EQ(modules, tiles);
}

}  // namespace
}  // namespace microscale
