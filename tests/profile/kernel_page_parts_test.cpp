#include "profile/kernel_page_parts.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "profile/sample_profile.hpp"

namespace microscale {
namespace {

TEST(KernelPageParts, write_a_row_of_equal_values_once) {
  const auto json = nlohmann::json::parse(trace_json(testing::sample_profile()));
  ASSERT_EQ(json["steps"].size(), 1u);
  EXPECT_EQ(json["steps"][0][3][1][1], "1");
  const std::string row = json["steps"][0][3][0][1];
  EXPECT_EQ(row.substr(0, 6), "0 1 2 ");
  EXPECT_EQ(row.substr(row.size() - 5), "1e 1f");
  EXPECT_EQ(json["code"][0], nlohmann::json({10, "mov.u32 %r1, %tid.x;", "k.cu:1", ""}));
  EXPECT_EQ(json["buffers"][0], nlohmann::json({"out", "10000", 0x8000}));
}

TEST(KernelPageParts, hold_no_character_of_markup) {
  KernelProfile profile = testing::sample_profile();
  profile.instructions[0].text = "</script><!-- & -->";
  EXPECT_EQ(trace_json(profile).find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(kernel_page_script().find_first_of("<>&"), std::string_view::npos);
  EXPECT_EQ(kernel_page_style().find_first_of("<>&"), std::string_view::npos);
}

}  // namespace
}  // namespace microscale
