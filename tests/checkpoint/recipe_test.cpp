#include "checkpoint/recipe.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace microscale {
namespace {

using testing::fails_with;

TensorEntry entry(std::string name, std::vector<std::int64_t> shape = {64, 64},
                  StoredType type = StoredType::bf16) {
  TensorEntry tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.type = type;
  return tensor;
}

Recipe recipe(std::vector<std::string> include = {}, std::vector<std::string> ignore = {},
              Format format = Format::nvfp4) {
  return take(Recipe::create(*weight_format_of(format), include, ignore));
}

// Of a model that has this tensor alone.
Decision decide(const Recipe& recipe, const TensorEntry& tensor) {
  return recipe.decide(tensor, Classifier({&tensor}, {}).judge(tensor));
}

void expect_copied(const Recipe& recipe, const TensorEntry& tensor, const std::string& reason,
                   bool linear) {
  const Decision decision = decide(recipe, tensor);
  EXPECT_EQ(decision.treatment, Treatment::copy) << tensor.name;
  EXPECT_EQ(decision.reason, reason) << tensor.name;
  EXPECT_EQ(decision.linear, linear) << tensor.name;
}

TEST(Recipe, quantizes_linear_weights_of_all_float_types) {
  for (const StoredType type : {StoredType::f32, StoredType::f16, StoredType::bf16}) {
    const Decision decision =
        decide(recipe(), entry("model.layers.0.self_attn.q_proj.weight", {48, 32}, type));
    EXPECT_EQ(decision, (Decision{Treatment::quantize, "linear weight", true, false}));
  }
  for (const char* name :
       {"encoder.layer.0.attention.self.query.weight", "pooler.dense.weight",
        "model.layers.0.block_sparse_moe.experts.7.w2.weight", "h.0.attn.c_attn.weight",
        "model.layers.0.mlp.gate_proj.weight", "model.layers.3.mlp.shared_expert.up_proj.weight"}) {
    EXPECT_EQ(decide(recipe(), entry(name)).treatment, Treatment::quantize) << name;
  }
}

TEST(Recipe, copies_what_is_no_linear_weight_and_says_why) {
  const Recipe r = recipe();
  expect_copied(r, entry("a.scale", {}), "a scalar", false);
  expect_copied(r, entry("a.q_proj.bias", {64}), "a vector, no matrix", false);
  expect_copied(r, entry("a.table", {64, 64}), "no weight of a layer", false);
  expect_copied(r, entry("a.conv.weight", {8, 8, 3, 3}), "4-D weight, no linear layer", false);
  expect_copied(r, entry("a.q.weight", {64, 64}, StoredType::f64), "F64 elements are not quantized",
                true);
  expect_copied(r, entry("a.q.weight", {0, 64}), "no elements", true);
  expect_copied(r, entry("a.q.weight", {64, 24}), "K = 24 is no multiple of 16", true);
  expect_copied(recipe({}, {}, Format::mxfp4), entry("a.q.weight", {64, 48}),
                "K = 48 is no multiple of 32", true);
}

TEST(Recipe, include_narrows_and_ignore_removes) {
  const Recipe only = recipe({"*.mlp.*"});
  EXPECT_EQ(decide(only, entry("model.layers.0.mlp.up_proj.weight")).treatment,
            Treatment::quantize);
  const Decision left = decide(only, entry("model.layers.0.self_attn.o_proj.weight"));
  EXPECT_EQ(left, (Decision{Treatment::copy, "not included", true, true, Kept::not_included}));
  const Recipe without = recipe({}, {"re:.*o_proj$"});
  EXPECT_EQ(decide(without, entry("model.layers.0.self_attn.o_proj.weight")),
            (Decision{Treatment::copy, "ignored by 're:.*o_proj$'", true, true, Kept::ignored}));
  EXPECT_EQ(decide(recipe({}, {"a.b.weight"}), entry("a.b.weight")).reason,
            "ignored by 'a.b.weight'");
}

TEST(Recipe, include_overrules_default_ignores_only_when_it_spells_the_name_out) {
  EXPECT_EQ(decide(recipe({"lm_head"}), entry("lm_head.weight")).treatment, Treatment::quantize);
  expect_copied(recipe({"*"}), entry("lm_head.weight"), "output head", true);
  expect_copied(recipe({"model.embed_tokens"}), entry("model.embed_tokens.weight"), "embedding",
                false);
}

TEST(Recipe, finds_the_include_that_matches_nothing) {
  const TensorEntry tensor = entry("a.q_proj.weight");
  const Classifier classifier({&tensor}, {});
  EXPECT_FALSE(recipe({"a.q_proj"}).unused_pattern({&tensor}, classifier).has_value());
  const Recipe typo = recipe({"*", "a.q_poj"});
  ASSERT_TRUE(typo.unused_pattern({&tensor}, classifier).has_value());
  EXPECT_EQ(typo.unused_pattern({&tensor}, classifier)->text, "a.q_poj");
}

TEST(Recipe, asks_for_a_path_where_a_layer_is_ignored_by_its_last_name) {
  const TensorEntry tensor = entry("model.layers.0.self_attn.o_proj.weight");
  const Classifier classifier({&tensor}, {});
  for (const char* word : {"o_proj", "mlp", "self_attn.o_proj", "nonsense"}) {
    const Recipe wrong = Recipe::create(WeightFormat::nvfp4, {}, {word}).value();
    ASSERT_TRUE(wrong.unused_pattern({&tensor}, classifier).has_value()) << word;
    EXPECT_EQ(wrong.unused_pattern({&tensor}, classifier)->text, word);
  }
  const Recipe tied = Recipe::create(WeightFormat::nvfp4, {}, {"lm_head"}).value();
  EXPECT_FALSE(tied.unused_pattern({&tensor}, classifier).has_value());
}

TEST(Recipe, passes_on_what_is_wrong_with_a_pattern) {
  EXPECT_TRUE(fails_with(Recipe::create(WeightFormat::nvfp4, {"re:("}, {}),
                         "'re:(' is no regular expression"));
  EXPECT_TRUE(fails_with(Recipe::create(WeightFormat::nvfp4, {}, {"[x"}), "'[x'"));
}

TEST(Recipe, leaves_out_what_a_calibration_left) {
  EXPECT_EQ(decide(recipe(), entry("a.q_proj.input_scale", {1})).treatment, Treatment::drop);
}

}  // namespace
}  // namespace microscale
