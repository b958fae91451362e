#include "checkpoint/format_choice.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;

FormatChoice small_choice() {
  FormatChoice choice;
  choice.budget = "at most 4.75 bits a weight";
  choice.menu = {WeightFormat::nvfp4, WeightFormat::fp8, std::nullopt};
  choice.weighted_layers = 3;
  choice.by_gradients = true;
  choice.groups = {{"l.0.{q_proj,k_proj,v_proj}", 3, 1000, {0.1, 1.0 / 3, 0}, {562, 1000, 2000}, 0},
                   {"l.0.o_proj \"x\"",
                    1,
                    600,
                    {std::numeric_limits<double>::infinity(), 1e-4, 0},
                    {0, 600, 1200},
                    1}};
  return choice;
}

TEST(FormatChoice, comes_back_from_its_text) {
  const FormatChoice choice = small_choice();
  const auto back = choice_from(to_text(choice));
  ASSERT_TRUE(succeeds(back));
  EXPECT_EQ(back.value(), choice);
  EXPECT_EQ(to_text(back.value()), to_text(choice));
}

TEST(FormatChoice, adds_up) {
  const FormatChoice choice = small_choice();
  EXPECT_EQ(choice.bytes(), 1162);
  EXPECT_EQ(choice.weights(), 1600);
  EXPECT_EQ(choice.layers(), 4);
  EXPECT_DOUBLE_EQ(choice.bits(), 8.0 * 1162 / 1600);
  EXPECT_DOUBLE_EQ(choice.error(), 0.1 + 1e-4);
  EXPECT_EQ(FormatChoice().bits(), 0);
}

TEST(FormatChoice, refuses_a_text_that_is_none) {
  const std::string good = to_text(small_choice());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return choice_from(text);
  };
  EXPECT_TRUE(fails_with(choice_from("[]"), "damaged"));
  EXPECT_TRUE(fails_with(choice_from("{"), ""));
  EXPECT_TRUE(fails_with(with("\"fp8\"", "\"fp9\""), "format that is none"));
  EXPECT_TRUE(fails_with(with("\"chosen\":0", "\"chosen\":3"), "another menu"));
  EXPECT_TRUE(fails_with(with("\"chosen\":1", "\"chosen\":0"), "another menu"))
      << "a format that the layer cannot have";
  EXPECT_TRUE(fails_with(with("[562,1000,2000]", "[562,1000]"), "another menu"));
  EXPECT_TRUE(fails_with(with("\"weights\":1000", "\"weights\":\"many\""), "damaged"));
}

TEST(FormatChoice, names_what_gets_one_format) {
  EXPECT_EQ(choice_group_of("m.0.q_proj.weight"), choice_group_of("m.0.v_proj.weight"));
  EXPECT_EQ(choice_group_of("m.0.o_proj.weight"), "m.0.o_proj");
  EXPECT_EQ(choice_group_of("m.0.mlp.experts.3.up_proj.weight"), "m.0.mlp.experts");
  EXPECT_EQ(choice_group_of("m.0.mlp.experts.gate_up_proj"), "m.0.mlp.experts");
  EXPECT_EQ(choice_group_of("m.0.mlp.experts.down_proj_bias"), "m.0.mlp.experts");
}

TEST(FormatChoice, knows_the_words_of_a_menu) {
  for (const MenuFormat format : small_choice().menu)
    EXPECT_EQ(parse_menu_format(menu_name(format)), std::optional<MenuFormat>(format));
  EXPECT_FALSE(parse_menu_format("fp4").has_value());
  EXPECT_EQ(in_words(small_choice().menu), "nvfp4, fp8 and bf16");
  EXPECT_EQ(in_words(Budget{.bits = 4.75, .bytes = {}, .menu = small_choice().menu}),
            "at most 4.75 bits a weight, of nvfp4, fp8 and bf16");
}

}  // namespace
}  // namespace microscale
