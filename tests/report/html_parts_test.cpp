#include "report/html_parts.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "report/markup_check.hpp"

namespace microscale {
namespace {

TEST(HtmlParts, table_cells_are_escaped_and_names_may_break) {
  HtmlTable table("a \"caption\"", HtmlTable::Use::sort);
  table.column("name", false);
  table.column("size", true, "in <bytes>");
  table.begin_row();
  table.text("a.b_<c>", true);
  table.number("1 kB", 1000);
  table.begin_row();
  table.text("", true);
  table.number("-", std::numeric_limits<double>::quiet_NaN());
  const std::string html = table.done();
  EXPECT_EQ(testing::markup_error(html), "");
  EXPECT_NE(html.find("a.<wbr />b_<wbr />&lt;c&gt;</td>"), std::string::npos) << html;
  EXPECT_NE(html.find("data-v=\"1000\">1 kB<"), std::string::npos);
  EXPECT_NE(html.find("data-v=\"-1e+300\">-<"), std::string::npos);
}

TEST(HtmlParts, sections_without_content_vanish) {
  EXPECT_EQ(section("id", "title", "why", ""), "");
  const std::string html = section("id", "a < b", "", "<p>x</p>");
  EXPECT_EQ(testing::markup_error(html), "");
  EXPECT_NE(html.find("<h2>a &lt; b</h2>"), std::string::npos);
  EXPECT_EQ(html.find("class=\"note\""), std::string::npos);
}

TEST(HtmlParts, style_and_script_end_no_element_early) {
  EXPECT_EQ(page_style().find('<'), std::string_view::npos);
  EXPECT_EQ(page_script().find_first_of("<&"), std::string_view::npos);
}

}  // namespace
}  // namespace microscale
