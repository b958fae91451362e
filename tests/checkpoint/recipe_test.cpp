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
              ModelFacts facts = {}, Format format = Format::nvfp4) {
  return take(Recipe::create(format, include, ignore, std::move(facts)));
}

void expect_copied(const Recipe& recipe, const TensorEntry& tensor, const std::string& reason,
                   bool linear) {
  const Decision decision = recipe.decide(tensor);
  EXPECT_EQ(decision.treatment, Treatment::copy) << tensor.name;
  EXPECT_EQ(decision.reason, reason) << tensor.name;
  EXPECT_EQ(decision.linear, linear) << tensor.name;
}

TEST(Recipe, quantizes_linear_weights_of_all_float_types) {
  for (const StoredType type : {StoredType::f32, StoredType::f16, StoredType::bf16}) {
    const Decision decision =
        recipe().decide(entry("model.layers.0.self_attn.q_proj.weight", {48, 32}, type));
    EXPECT_EQ(decision, (Decision{Treatment::quantize, "linear weight", true, false}));
  }
  for (const char* name :
       {"encoder.layer.0.attention.self.query.weight", "pooler.dense.weight",
        "model.layers.0.block_sparse_moe.experts.7.w2.weight", "h.0.attn.c_attn.weight",
        "model.layers.0.mlp.gate_proj.weight", "model.layers.3.mlp.shared_expert.up_proj.weight"}) {
    EXPECT_EQ(recipe().decide(entry(name)).treatment, Treatment::quantize) << name;
  }
}

TEST(Recipe, copies_what_is_no_linear_weight_and_says_why) {
  const Recipe r = recipe();
  expect_copied(r, entry("a.scale", {}), "a scalar", false);
  expect_copied(r, entry("a.q_proj.bias", {64}), "a vector, no matrix", false);
  expect_copied(r, entry("a.table", {64, 64}), "no weight of a layer", false);
  expect_copied(r, entry("a.conv.weight", {8, 8, 3, 3}), "4-D weight, no linear layer", false);
  expect_copied(r, entry("a.q.weight", {64, 64}, StoredType::i8), "I8 elements are not quantized",
                true);
  expect_copied(r, entry("a.q.weight", {64, 64}, StoredType::f64), "F64 elements are not quantized",
                true);
  expect_copied(r, entry("a.q.weight", {0, 64}), "no elements", true);
  expect_copied(r, entry("a.q.weight", {64, 24}), "K = 24 is no multiple of 16", true);
  expect_copied(recipe({}, {}, {}, Format::mxfp4), entry("a.q.weight", {64, 48}),
                "K = 48 is no multiple of 32", true);
}

TEST(Recipe, leaves_the_parts_alone_that_suffer_most) {
  const Recipe r = recipe();
  expect_copied(r, entry("model.embed_tokens.weight"), "embedding", false);
  expect_copied(r, entry("transformer.wte.weight"), "embedding", false);
  expect_copied(r, entry("embeddings.token_type_embeddings.weight"), "embedding", false);
  expect_copied(r, entry("shared.weight"), "embedding", false);
  expect_copied(r, entry("lm_head.weight"), "output head", true);
  expect_copied(r, entry("embed_out.weight"), "output head", true);
  expect_copied(r, entry("output.weight"), "output head", true);
  expect_copied(r, entry("cls.predictions.transform.dense.weight"), "output head", true);
  expect_copied(r, entry("model.norm.weight", {64}), "norm", false);
  expect_copied(r, entry("model.layers.0.mlp.gate.weight"), "router", true);
  expect_copied(r, entry("model.layers.0.feed_forward.router.weight"), "router", true);
  expect_copied(r, entry("model.layers.0.mlp.shared_expert_gate.weight"), "router", true);
  expect_copied(r, entry("vision_tower.blocks.0.q_proj.weight"), "part of the vision tower", true);
  expect_copied(r, entry("visual.blocks.0.attn.qkv.weight"), "part of the vision tower", true);
  expect_copied(r, entry("audio_tower.layers.0.fc1.weight"), "part of the audio tower", true);
  expect_copied(r, entry("multi_modal_projector.linear_1.weight"), "multi-modal projector", true);
  expect_copied(r, entry("mtp.layers.0.mlp.up_proj.weight"), "multi-token prediction layer", true);
}

TEST(Recipe, takes_only_output_weight_of_the_top_for_the_head) {
  EXPECT_EQ(recipe().decide(entry("layers.0.attention.output.weight")).treatment,
            Treatment::quantize);
  EXPECT_EQ(recipe().decide(entry("encoder.layer.0.output.dense.weight")).treatment,
            Treatment::quantize);
}

TEST(Recipe, knows_prediction_layers_by_their_number) {
  ModelFacts facts;
  facts.layers = 61;
  const char* name = "model.layers.61.self_attn.o_proj.weight";
  EXPECT_EQ(recipe({}, {}, facts).decide(entry(name)).treatment, Treatment::quantize);
  facts.has_prediction_layers = true;
  expect_copied(recipe({}, {}, facts), entry(name), "multi-token prediction layer", true);
  EXPECT_EQ(
      recipe({}, {}, facts).decide(entry("model.layers.60.self_attn.o_proj.weight")).treatment,
      Treatment::quantize);
}

TEST(Recipe, copies_transposed_layers_of_gpt2) {
  ModelFacts facts;
  facts.model_type = "gpt2";
  expect_copied(recipe({}, {}, facts), entry("h.0.attn.c_attn.weight"),
                "Conv1D layer, which holds its weights transposed", false);
}

TEST(Recipe, include_narrows_and_ignore_removes) {
  const Recipe only = recipe({"*.mlp.*"});
  EXPECT_EQ(only.decide(entry("model.layers.0.mlp.up_proj.weight")).treatment, Treatment::quantize);
  const Decision left = only.decide(entry("model.layers.0.self_attn.o_proj.weight"));
  EXPECT_EQ(left, (Decision{Treatment::copy, "not included", true, true}));
  const Recipe without = recipe({}, {"re:.*o_proj$"});
  EXPECT_EQ(without.decide(entry("model.layers.0.self_attn.o_proj.weight")),
            (Decision{Treatment::copy, "ignored by 're:.*o_proj$'", true, true}));
  EXPECT_EQ(recipe({}, {"a.b.weight"}).decide(entry("a.b.weight")).reason,
            "ignored by 'a.b.weight'");
}

TEST(Recipe, include_overrules_default_ignores_only_when_it_spells_the_name_out) {
  EXPECT_EQ(recipe({"lm_head"}).decide(entry("lm_head.weight")).treatment, Treatment::quantize);
  expect_copied(recipe({"*"}), entry("lm_head.weight"), "output head", true);
  expect_copied(recipe({"model.embed_tokens"}), entry("model.embed_tokens.weight"), "embedding",
                false);
}

TEST(Recipe, finds_the_include_that_matches_nothing) {
  const TensorEntry tensor = entry("a.q_proj.weight");
  EXPECT_EQ(recipe({"a.q_proj"}).unused_pattern({&tensor}).has_value(), false);
  const Recipe typo = recipe({"*", "a.q_poj"});
  ASSERT_TRUE(typo.unused_pattern({&tensor}).has_value());
  EXPECT_EQ(typo.unused_pattern({&tensor})->text, "a.q_poj");
}

TEST(Recipe, passes_on_what_is_wrong_with_a_pattern) {
  EXPECT_TRUE(fails_with(Recipe::create(Format::nvfp4, {"re:("}, {}, {}),
                         "'re:(' is no regular expression"));
  EXPECT_TRUE(fails_with(Recipe::create(Format::nvfp4, {}, {"[x"}, {}), "'[x'"));
}

TEST(Recipe, splits_names_into_module_and_leaf) {
  EXPECT_EQ(module_of("a.b.weight"), "a.b");
  EXPECT_EQ(module_of("a.b.bias"), "a.b.bias");
  EXPECT_EQ(leaf_of("a.b"), "b");
  EXPECT_EQ(leaf_of("b"), "b");
}

}  // namespace
}  // namespace microscale
