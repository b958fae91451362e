#include "report/svg_text.hpp"

#include <gtest/gtest.h>

#include "report/markup_check.hpp"

namespace microscale {
namespace {

TEST(SvgText, labels_are_thinned_in_steps_of_1_2_5) {
  EXPECT_EQ(label_step(10, 20, 15), 1u);
  EXPECT_EQ(label_step(10, 20, 25), 2u);
  EXPECT_EQ(label_step(100, 20, 41), 5u);
  EXPECT_EQ(label_step(1000, 1, 41), 50u);
  EXPECT_GE(label_step(3, 0.001, 100), 3u);  // never room: only the first
}

TEST(SvgText, width_is_by_column) {
  EXPECT_GT(text_width("abcd"), text_width("abc"));
  EXPECT_EQ(text_width("\u6a21"), text_width("ab"));
  EXPECT_EQ(text_width(""), 0);
}

TEST(SvgText, pieces_are_whole_and_escaped) {
  const std::string svg = open_svg(10, 20, "a\"<b", 0, 100) + svg_text(1, 2, "m", "<&>") + "</svg>";
  EXPECT_EQ(testing::markup_error(svg), "");
  EXPECT_NE(svg.find("viewBox=\"0 0 10 20\""), std::string::npos);
  EXPECT_NE(svg.find(">&lt;&amp;&gt;</text>"), std::string::npos);
}

}  // namespace
}  // namespace microscale
