// Orders of a row's elements: each is a permutation, and keeps instructions inside blocks where it
// says so.
#include "cuda/matmul/fragment_order.hpp"

#include <gtest/gtest.h>

#include <set>

#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda {
namespace {

constexpr FragmentOrder orders[] = {FragmentOrder::packed, FragmentOrder::fp4_blocks,
                                    FragmentOrder::fp4_lines, FragmentOrder::fp8_blocks,
                                    FragmentOrder::fp8_lines};

TEST(FragmentOrder, takes_every_element_once) {
  for (const FragmentOrder order : orders) {
    std::set<int> seen;
    for (int step = 0; step < 8; ++step)
      for (int t = 0; t < 4; ++t)
        for (int i = 0; i < 4; ++i) seen.insert(fragment_element(order, step, t, i));
    EXPECT_EQ(seen.size(), 128u);
    EXPECT_EQ(*seen.rbegin(), 127);
  }
}

TEST(FragmentOrder, two_instructions_stay_inside_32_elements_but_in_lines) {
  for (const FragmentOrder order : orders) {
    bool inside = true;
    for (int step = 0; step < 8; ++step)
      for (int t = 0; t < 4; ++t)
        for (int i = 0; i < 4; ++i) inside &= fragment_element(order, step, t, i) / 32 == step / 2;
    EXPECT_EQ(inside, order != FragmentOrder::fp4_lines && order != FragmentOrder::fp8_lines);
  }
}

TEST(FragmentOrder, packed_is_the_order_of_the_tiles) {
  for (int step = 0; step < 4; ++step)
    for (int t = 0; t < 4; ++t)
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(fragment_element(FragmentOrder::packed, step, t, i),
                  fragment_tiles::element(t, step, 2 * (i / 2), i % 2).col);
}

TEST(FragmentOrder, units_lie_side_by_side) {
  std::set<std::int64_t> seen;
  for (int step = 0; step < 8; ++step)
    for (int t = 0; t < 4; ++t) seen.insert(unit_byte(step, t));
  EXPECT_EQ(seen.size(), 32u);
  EXPECT_EQ(*seen.rbegin(), 256 - 8);
  EXPECT_EQ(unit_byte(1, 2), unit_byte(0, 2) + 8) << "a lane's 16 bytes are two instructions'";
}

}  // namespace
}  // namespace microscale::cuda
