#include "checkpoint/module_match.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(ModuleList, matches_names_whole_and_expressions_from_the_start) {
  const ModuleList list({"lm_head", R"(re:.*mlp\.gate$)", "re:vision"}, false);
  EXPECT_EQ(list.matches("lm_head", true), Match::yes);
  EXPECT_EQ(list.matches("model.lm_head", true), Match::no);
  EXPECT_EQ(list.matches("model.layers.0.mlp.gate", true), Match::yes);
  EXPECT_EQ(list.matches("model.layers.0.mlp.gate_proj", true), Match::no);
  EXPECT_EQ(list.matches("vision_tower.layers.0", true), Match::yes);
  EXPECT_EQ(list.matches("model.vision_tower", true), Match::no);
}

TEST(ModuleList, takes_linear_for_every_linear_layer_only) {
  const ModuleList list({"Linear"}, false);
  EXPECT_EQ(list.matches("anything", true), Match::yes);
  EXPECT_EQ(list.matches("embed_tokens", false), Match::no);
}

TEST(ModuleList, cannot_judge_other_classes_and_foreign_expressions) {
  const ModuleList list({"Qwen3MoeExperts", "re:(?i)LM_HEAD", "down"}, false);
  EXPECT_EQ(list.not_understood(), (std::vector<std::string>{"Qwen3MoeExperts", "re:(?i)LM_HEAD"}));
  EXPECT_EQ(list.matches("up", true), Match::unknown);
  EXPECT_EQ(list.matches("down", true), Match::yes);
}

TEST(ModuleList, has_wildcards_only_for_modelopt) {
  EXPECT_EQ(ModuleList({"model.layers.0.*"}, true).matches("model.layers.0.mlp.up_proj", true),
            Match::yes);
  EXPECT_EQ(ModuleList({"model.layers.0.*"}, false).matches("model.layers.0.mlp.up_proj", true),
            Match::no);
}

TEST(ModuleExpectations, a_name_goes_before_a_class_and_a_rival_is_told) {
  QuantizationConfig config{"compressed-tensors", {}, {}, {}, {}};
  config.groups.push_back({"class", Format::nvfp4, {"Linear"}, false});
  config.groups.push_back({"some", Format::mxfp8_e4m3, {"re:.*down_proj"}, false});
  config.groups.push_back({"one", std::nullopt, {"a.down_proj"}, false});
  const ModuleExpectations expectations(config);
  EXPECT_EQ(expectations.of("a.down_proj", true).group, &config.groups[1]);
  EXPECT_EQ(expectations.of("a.down_proj", true).rival, &config.groups[2]);
  EXPECT_EQ(expectations.of("b.down_proj", true).group, &config.groups[1]);
  EXPECT_EQ(expectations.of("b.down_proj", true).rival, nullptr);
  EXPECT_EQ(expectations.of("a.up_proj", true).group, &config.groups[0]);
}

TEST(ModuleExpectations, ignore_wins_and_the_first_group_counts) {
  QuantizationConfig config{"compressed-tensors", {}, {"lm_head"}, {}, {}};
  config.groups.push_back({"first", Format::mxfp8_e4m3, {"re:.*down_proj"}, false});
  config.groups.push_back({"second", Format::nvfp4, {"Linear"}, false});
  const ModuleExpectations expectations(config);
  EXPECT_EQ(expectations.of("a.down_proj", true).group, &config.groups[0]);
  EXPECT_EQ(expectations.of("a.up_proj", true).group, &config.groups[1]);
  EXPECT_EQ(expectations.of("a.up_proj", true).quantized, Match::yes);
  EXPECT_EQ(expectations.of("lm_head", true).quantized, Match::no);
  EXPECT_TRUE(expectations.of("lm_head", true).ignored);
  EXPECT_EQ(expectations.of("norm", false).quantized, Match::no);
}

}  // namespace
}  // namespace microscale
