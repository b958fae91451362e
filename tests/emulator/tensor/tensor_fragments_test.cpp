#include "emulator/tensor/tensor_fragments.hpp"

#include <gtest/gtest.h>

#include <set>

#include "support/cute_layout.hpp"

namespace microscale::emulator::tensor {
namespace {

using enum TensorShape;

TEST(TensorFragments, are_those_of_cutes_layouts) {
  // (thread, bit of its registers) to a bit of 16 or 32 rows of one repetition.
  struct Case {
    TensorShape shape;
    const char* layout;
  };
  for (const Case& each : {Case{lanes32x32b, "((32),(32)):((32),(1))"},
                           Case{lanes16x64b, "((2,2,8),(32)):((512,32,64),(1))"},
                           Case{lanes16x128b, "((4,8),(32,2)):((32,128),(1,1024))"},
                           Case{lanes16x256b, "((4,8),(64,2)):((64,256),(1,2048))"}}) {
    const testing::CuteLayout layout(each.layout);
    const int row_bits = 32 * columns_of(each.shape);
    for (std::uint32_t thread = 0; thread < 32; ++thread)
      for (std::uint32_t reg = 0; reg < static_cast<std::uint32_t>(registers_of(each.shape));
           ++reg) {
        const int bit = layout({static_cast<int>(thread), static_cast<int>(32 * reg)});
        const TensorPlace place = tensor_place(each.shape, thread, reg);
        EXPECT_EQ(place.lane, static_cast<std::uint32_t>(bit / row_bits)) << each.layout;
        EXPECT_EQ(place.column, static_cast<std::uint32_t>(bit % row_bits / 32)) << each.layout;
      }
  }
}

TEST(TensorFragments, cover_each_word_once) {
  for (const TensorShape shape :
       {lanes32x32b, lanes16x64b, lanes16x128b, lanes16x256b, lanes16x32bx2}) {
    const std::uint32_t registers = 4 * static_cast<std::uint32_t>(registers_of(shape));
    std::set<std::pair<std::uint32_t, std::uint32_t>> places;
    for (std::uint32_t thread = 0; thread < 32; ++thread)
      for (std::uint32_t reg = 0; reg < registers; ++reg) {
        const TensorPlace place = tensor_place(shape, thread, reg, 4);
        EXPECT_LT(place.lane, static_cast<std::uint32_t>(lanes_of(shape)));
        places.insert({place.lane, place.column});
      }
    EXPECT_EQ(places.size(), 32 * registers);
    EXPECT_EQ(most_repetitions(shape) * registers_of(shape), 128);
  }
}

TEST(TensorFragments, of_a_copy_reach_all_lanes_of_their_shape) {
  EXPECT_EQ(groups_of(CopyShape::r32x128b, 0), 0b1111u);
  EXPECT_EQ(groups_of(CopyShape::r64x128b_02_13, 1), 0b1010u);
  EXPECT_EQ(groups_of(CopyShape::r64x128b_01_23, 1), 0b1100u);
  EXPECT_EQ(groups_of(CopyShape::r128x256b, 3), 0b1000u);
  EXPECT_EQ(product_lane(128, 77), 77u);
  EXPECT_EQ(product_lane(64, 17), 33u);
}

}  // namespace
}  // namespace microscale::emulator::tensor
