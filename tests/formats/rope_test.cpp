#include "formats/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace microscale {
namespace {

TEST(Rope, turns_a_pair_with_two_roundings_an_element) {
  constexpr RopePair quarter = rotate(3.0f, 5.0f, 0.0f, 1.0f);
  static_assert(quarter.first == -5.0f && quarter.second == 3.0f);
  const float x = 1.2345678f, y = -0.7654321f, cos = 0.87654f, sin = -0.4813f;
  const RopePair turned = rotate(x, y, cos, sin);
  EXPECT_EQ(turned.first, std::fma(x, cos, -(y * sin)));
  EXPECT_EQ(turned.second, std::fma(y, cos, x * sin));
}

TEST(Rope, places_pairs_in_halves_or_side_by_side) {
  EXPECT_EQ(rope_first(3, false), 3);
  EXPECT_EQ(rope_distance(64, false), 32);
  EXPECT_EQ(rope_first(3, true), 6);
  EXPECT_EQ(rope_distance(64, true), 1);
}

}  // namespace
}  // namespace microscale
