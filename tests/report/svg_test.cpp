#include "report/svg.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "report/markup_check.hpp"

namespace microscale {
namespace {

using testing::markup_error;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

std::size_t count_of(std::string_view text, std::string_view piece) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(piece, at)) != std::string_view::npos;
       at += piece.size())
    ++count;
  return count;
}

HeatMap map_of(std::vector<double> values, std::size_t columns) {
  HeatMap map;
  map.label = "errors";
  for (std::size_t c = 0; c < columns; ++c) map.columns.push_back(std::to_string(c));
  for (std::size_t r = 0; r < values.size() / columns; ++r)
    map.rows.push_back("row" + std::to_string(r));
  map.values = std::move(values);
  return map;
}

TEST(MarkupCheck, finds_what_is_wrong) {
  EXPECT_EQ(markup_error("<a b=\"c\"><d /></a>"), "");
  for (const char* bad :
       {"<a>", "<a></b>", "<a b=c></a>", "a & b", "<a b=\"<\"></a>", "</a>", "a > b", "<a"}) {
    EXPECT_NE(markup_error(bad), "") << bad;
  }
}

TEST(Svg, escapes_whatever_a_name_holds) {
  EXPECT_EQ(escape_markup("<script>alert('x')&\"</script>"),
            "&lt;script&gt;alert(&#39;x&#39;)&amp;&quot;&lt;/script&gt;");
  EXPECT_EQ(escape_markup("\u00e9\u6a21"), "&#233;&#27169;");
  EXPECT_EQ(escape_markup(std::string_view("a\0b\x1b\xff", 5)), "a&#65533;b&#65533;&#65533;");
  EXPECT_EQ(escape_markup("\xc0\xbcscript"), "&#65533;&#65533;script");  // an overlong <
}

TEST(Svg, heat_map_spreads_its_colours_over_the_range) {
  const std::string svg = render(map_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 5));
  EXPECT_EQ(markup_error(svg), "");
  for (int level = 0; level < 10; ++level) {
    EXPECT_EQ(count_of(svg, "class=\"cell c" + std::to_string(level) + "\""), 1u) << level;
  }
}

TEST(Svg, logarithmic_heat_map_gives_each_decade_its_share) {
  HeatMap map = map_of({1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 0, inf}, 7);
  map.scale = Scale::logarithmic;
  const std::string svg = render(map);
  EXPECT_EQ(count_of(svg, "class=\"cell c0\""), 2u);  // the least, and zero
  EXPECT_EQ(count_of(svg, "class=\"cell c2\""), 1u);
  EXPECT_EQ(count_of(svg, "class=\"cell c5\""), 1u);
  EXPECT_EQ(count_of(svg, "class=\"cell c7\""), 1u);
  EXPECT_EQ(count_of(svg, "class=\"cell c9\""), 2u);  // the largest, and infinity
}

TEST(Svg, heat_map_leaves_out_what_is_missing) {
  EXPECT_EQ(count_of(render(map_of({1, nan, 3, nan}, 2)), "class=\"cell"), 2u);
  EXPECT_EQ(markup_error(render(map_of({nan, nan}, 1))), "");
  EXPECT_EQ(markup_error(render(map_of({5, 5}, 1))), "");  // no range
  EXPECT_EQ(markup_error(render(HeatMap{})), "");
}

TEST(Svg, heat_map_escapes_labels_and_tooltips) {
  HeatMap map = map_of({1}, 1);
  map.rows[0] = map.columns[0] = map.label = map.column_title = map.legend_title = "<b a='\">&";
  map.texts = {"<i>"};
  map.tooltips = {"</title><script>"};
  const std::string svg = render(map);
  EXPECT_EQ(markup_error(svg), "");
  EXPECT_EQ(svg.find("<script"), std::string::npos);
}

TEST(Svg, size_bars_of_nothing_are_whole) { EXPECT_EQ(markup_error(render(SizeBars{})), ""); }

TEST(Svg, size_bars_share_one_scale) {
  SizeBars sizes;
  sizes.parts = {{"weights", 80, 20, "80 B", "20 B"}, {"rest", 20, 20, "20 B", "20 B"}};
  const std::string svg = render(sizes);
  EXPECT_EQ(markup_error(svg), "");
  EXPECT_NE(svg.find("width=\"351.50\""), std::string::npos)
      << svg;  // 440 * 80 / 100, less the gap
  EXPECT_EQ(count_of(svg, "width=\"87.50\""), 3u);
}

}  // namespace
}  // namespace microscale
