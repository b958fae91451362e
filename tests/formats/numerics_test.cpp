#include "microscale/numerics.hpp"

#include <gtest/gtest.h>

#include "microscale/error.hpp"

namespace microscale {
namespace {

TEST(Numerics, names_round_trip) {
  for (const FormatInfo& format : all_formats())
    for (ScaleRule rule : scale_rules(format.format))
      EXPECT_EQ(parse_scale_rule(to_string(rule)), rule);
  for (int r = 0; r < 5; ++r)
    EXPECT_EQ(parse_rounding(to_string(static_cast<Rounding>(r))), static_cast<Rounding>(r));
  for (int c = 0; c < 10; ++c)
    EXPECT_EQ(parse_compat(to_string(static_cast<Compat>(c))), static_cast<Compat>(c));
  EXPECT_FALSE(parse_scale_rule("florr"));
  EXPECT_FALSE(parse_rounding(""));
  EXPECT_FALSE(parse_compat("TORCHAO"));
}

TEST(Numerics, the_search_is_every_format_s_default) {
  for (const FormatInfo& format : all_formats()) {
    EXPECT_EQ(scale_rules(format.format).front(), ScaleRule::search);
    EXPECT_EQ(Numerics{}.scale_rule, ScaleRule::search);
  }
}

TEST(Numerics, lists_of_names_hold_each_name) {
  EXPECT_NE(scale_rule_names(Format::nvfp4).find("four_over_six_mae"), std::string::npos);
  EXPECT_EQ(scale_rule_names(Format::mxfp4).find("four_over_six"), std::string::npos);
  EXPECT_NE(rounding_names().find("stochastic"), std::string::npos);
  EXPECT_NE(compat_names().find("llama.cpp"), std::string::npos);
}

}  // namespace
}  // namespace microscale
