#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

#include "report/markup_check.hpp"
#include "report/svg.hpp"

namespace microscale {
namespace {

Curve falling() {
  Curve curve;
  curve.label = "error <against> bits";
  curve.line = {{4.25, 1}, {4.5, 0.5}, {8, 0.01}, {16, 0}};
  curve.marks = {{{4.5, 0.6}, "all nvfp4", "all & sundry", false}, {{5, 0.3}, "chosen", "", true}};
  return curve;
}

TEST(SvgCurve, draws_the_line_and_every_mark) {
  const std::string svg = render(falling());
  EXPECT_EQ(testing::markup_error(svg), "");
  EXPECT_NE(svg.find("class=\"curve\" d=\"M"), std::string::npos);
  EXPECT_NE(svg.find(">all nvfp4<"), std::string::npos);
  EXPECT_NE(svg.find(">chosen<"), std::string::npos);
  EXPECT_NE(svg.find("dot strong"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(SvgCurve, leaves_out_what_has_no_place) {
  Curve curve = falling();
  curve.marks.push_back({{std::numeric_limits<double>::infinity(), 1}, "nowhere", "", false});
  EXPECT_EQ(render(curve).find("nowhere"), std::string::npos);
  curve.line = {{16, 0}};
  curve.marks = {};
  EXPECT_EQ(render(curve), "") << "nothing above 0 to be drawn";
}

// Texts of points that lie together go above and below each other.
TEST(SvgCurve, keeps_texts_apart) {
  Curve curve = falling();
  curve.marks.clear();
  for (int i = 0; i < 4; ++i) curve.marks.push_back({{5, 0.3}, "point", "", false});
  const std::string svg = render(curve);
  std::set<std::string> places;
  for (std::size_t at = 0; (at = svg.find(">point<", at)) != std::string::npos; ++at)
    places.insert(svg.substr(svg.rfind("<text", at), at - svg.rfind("<text", at)));
  EXPECT_EQ(places.size(), 4u);
}

}  // namespace
}  // namespace microscale
