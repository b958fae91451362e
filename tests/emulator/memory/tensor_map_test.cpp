#include "emulator/memory/tensor_map.hpp"

#include <gtest/gtest.h>

#include <set>

#include "microscale/error.hpp"

namespace microscale::emulator {
namespace {

TensorMap matrix() {  // 10 rows of 100 two-byte elements, pitch 224 bytes; boxes of 4 rows of 16
  TensorMap map;
  map.rank = 2;
  map.element_bytes = 2;
  map.address = 0x1000;
  map.size = {100, 10};
  map.stride = {2, 224};
  map.box = {16, 4};
  return map;
}

TEST(TensorMap, comes_back_from_its_descriptor) {
  TensorMap map = matrix();
  map.swizzle = Swizzle::b64;
  map.step = {1, 2, 1, 1, 1};
  const TensorMapBytes bytes = encode(map);
  ASSERT_TRUE(decode(bytes.data()).has_value());
  const TensorMap back = *decode(bytes.data());
  EXPECT_EQ(back.size, map.size);
  EXPECT_EQ(back.stride, map.stride);
  EXPECT_EQ(back.box[0], 16u);
  EXPECT_EQ(back.step, map.step);
  EXPECT_EQ(back.swizzle, map.swizzle);
  EXPECT_EQ(back.address, map.address);
  EXPECT_FALSE(decode(TensorMapBytes{}.data()).has_value());
}

TEST(TensorMap, refuses_what_the_hardware_refuses) {
  const auto refused = [](auto change) {
    TensorMap map = matrix();
    change(map);
    EXPECT_NE(problem_of(map), "");
    EXPECT_THROW(encode(map), Error);
  };
  EXPECT_EQ(problem_of(matrix()), "");
  refused([](TensorMap& m) { m.rank = 6; });
  refused([](TensorMap& m) { m.address = 8; });
  refused([](TensorMap& m) { m.stride[1] = 200; });
  refused([](TensorMap& m) { m.box[1] = 257; });
  refused([](TensorMap& m) { m.box[0] = 4; });
  refused([](TensorMap& m) { m.box[0] = 24, m.swizzle = Swizzle::b32; });
  refused([](TensorMap& m) { m.element_bytes = 3; });
}

TEST(TensorMap, cuts_a_box_into_rows_and_zeros_at_the_edges) {
  const std::int32_t inside[] = {4, 2};
  const auto whole = pieces_of(matrix(), inside, 0);
  ASSERT_EQ(whole.size(), 4u);
  EXPECT_EQ(whole[1].global, 0x1000u + 3 * 224 + 8);
  EXPECT_EQ(whole[1].shared, 32u);
  EXPECT_EQ(whole[1].bytes, 32u);
  const std::int32_t corner[] = {-3, 8};  // 3 columns before, 2 rows beyond
  const auto cut = pieces_of(matrix(), corner, 0);
  ASSERT_EQ(cut.size(), 6u);
  EXPECT_FALSE(cut[0].inside);
  EXPECT_EQ(cut[0].bytes, 6u);
  EXPECT_TRUE(cut[1].inside);
  EXPECT_EQ(cut[1].global, 0x1000u + 8 * 224);
  EXPECT_EQ(cut[1].shared, 6u);
  EXPECT_EQ(cut[1].bytes, 26u);
  EXPECT_FALSE(cut[4].inside);
  EXPECT_FALSE(cut[5].inside);
}

TEST(TensorMap, swizzles_bits_4_and_up_by_bits_7_and_up) {
  for (std::uint32_t row = 0; row < 8; ++row)
    for (std::uint32_t chunk = 0; chunk < 8; ++chunk)
      EXPECT_EQ(swizzled(Swizzle::b128, 0, row * 128 + chunk * 16 + 3),
                row * 128 + (chunk ^ row) * 16 + 3);
  EXPECT_EQ(swizzled(Swizzle::b64, 0, 128 + 16), 128u + 0);
  EXPECT_EQ(swizzled(Swizzle::b64, 0, 4 * 128), 4u * 128);
  EXPECT_EQ(swizzled(Swizzle::b32, 0, 128), 128u + 16);
  EXPECT_EQ(swizzled(Swizzle::b32, 0, 256), 256u);
  EXPECT_EQ(swizzled(Swizzle::none, 0, 128), 128u);
  EXPECT_EQ(swizzled(Swizzle::b128, 128, 0), 16u);  // by the address, not by the box
}

TEST(TensorMap, swizzled_boxes_cover_every_byte_once) {
  TensorMap map = matrix();
  for (const Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    map.swizzle = swizzle;
    map.box = {16, 8};
    const std::int32_t at[] = {91, 0};
    std::set<std::uint32_t> covered;
    for (const BoxPiece& piece : pieces_of(map, at, 0))
      for (std::uint32_t byte = 0; byte < piece.bytes; ++byte)
        EXPECT_TRUE(covered.insert(piece.shared + byte).second);
    EXPECT_EQ(covered.size(), map.box_bytes());
    EXPECT_EQ(*covered.rbegin(), map.box_bytes() - 1);
  }
}

TEST(TensorMap, steps_over_elements) {
  TensorMap map = matrix();
  map.step = {2, 3, 1, 1, 1};
  map.box = {8, 2};
  const std::int32_t at[] = {0, 0};
  const auto pieces = pieces_of(map, at, 0);
  ASSERT_EQ(pieces.size(), 16u);
  EXPECT_EQ(pieces[3].global, 0x1000u + 3 * 2 * 2);
  EXPECT_EQ(pieces[8].global, 0x1000u + 3 * 224);
}

}  // namespace
}  // namespace microscale::emulator
