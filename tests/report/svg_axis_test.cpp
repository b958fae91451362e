#include "report/svg_axis.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(SvgAxis, goes_between_round_numbers_around_both_ends) {
  const Axis axis = linear_axis(4.25, 16);
  EXPECT_LE(axis.low, 4.25);
  EXPECT_GE(axis.high, 16);
  EXPECT_GE(axis.ticks.size(), 3u);
  EXPECT_LE(axis.ticks.size(), 9u);
  EXPECT_EQ(axis.ticks.front(), axis.low);
  EXPECT_NEAR(axis.ticks.back(), axis.high, 1e-9);
  const Axis narrow = linear_axis(4.250, 4.251);
  EXPECT_LE(narrow.low, 4.250);
  EXPECT_GE(narrow.high, 4.251 - 1e-12);
  const Axis one = linear_axis(3, 3);
  EXPECT_LT(one.low, 3);
  EXPECT_GT(one.high, 3);
}

TEST(SvgAxis, begins_at_zero_with_one_end) {
  const Axis axis = linear_axis(7.0);
  EXPECT_EQ(axis.low, 0);
  EXPECT_GE(axis.high, 7);
  EXPECT_EQ(linear_axis(0).high, 1);
}

TEST(SvgAxis, of_powers_of_ten_holds_both_values) {
  const Axis axis = logarithmic_axis(0.002, 40);
  EXPECT_EQ(axis.low, -3);
  EXPECT_EQ(axis.high, 2);
  EXPECT_LT(logarithmic_axis(1, 1).low, logarithmic_axis(1, 1).high);
}

}  // namespace
}  // namespace microscale
