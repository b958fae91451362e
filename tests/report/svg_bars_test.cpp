#include <gtest/gtest.h>

#include <string>

#include "report/markup_check.hpp"
#include "report/svg.hpp"

namespace microscale {
namespace {

using testing::markup_error;

/// Height of bar `index`.
double bar_height(const std::string& svg, int index) {
  std::size_t at = 0;
  for (int i = 0; i <= index; ++i) at = svg.find("class=\"bar\"", at) + 1;
  return std::stod(svg.substr(svg.find("height=\"", at) + 8));
}

TEST(SvgBars, are_in_proportion) {
  const BarChart chart{
      "codes", {{"a", 2, ""}, {"b", 4, ""}, {"c", 0, ""}}, "x", "y", Scale::linear};
  const std::string svg = render(chart);
  EXPECT_EQ(markup_error(svg), "");
  EXPECT_NEAR(bar_height(svg, 1), 2 * bar_height(svg, 0), 0.02);
  EXPECT_EQ(bar_height(svg, 2), 0);
}

TEST(SvgBars, rise_by_the_decade_on_a_logarithmic_axis) {
  const BarChart chart{"codes",
                       {{"a", 0.1, "t<"}, {"b", 1, ""}, {"c", 10, ""}, {"d", 0, ""}},
                       "x",
                       "y",
                       Scale::logarithmic};
  const std::string svg = render(chart);
  EXPECT_EQ(markup_error(svg), "");
  EXPECT_GT(bar_height(svg, 0), 1);  // the smallest still shows
  EXPECT_NEAR(bar_height(svg, 1) - bar_height(svg, 0), bar_height(svg, 2) - bar_height(svg, 1),
              0.02);
  EXPECT_EQ(bar_height(svg, 3), 0);
}

TEST(SvgBars, of_nothing_are_whole) {
  EXPECT_EQ(markup_error(render(BarChart{})), "");
  EXPECT_EQ(markup_error(render(BarChart{"", {{"a", 0, ""}}, "", "", Scale::logarithmic})), "");
}

TEST(SvgBars, label_the_axis_in_round_steps) {
  for (const auto& [most, top] :
       {std::pair{1.0, ">1<"}, {1.5, ">1.5<"}, {9.0, ">10<"}, {0.031, ">0.04<"}}) {
    const std::string svg = render(BarChart{"", {{"a", most, ""}}, "", "", Scale::linear});
    EXPECT_NE(svg.find(top), std::string::npos) << svg;
  }
}

}  // namespace
}  // namespace microscale
