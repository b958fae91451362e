#include "checkpoint/kept_layers.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace microscale {
namespace {

struct Case {
  const char* module;
  Kept kept;
  std::vector<std::int64_t> shape = {};
};

// Of a model that has these modules and one repeated layer besides.
void expect(const std::vector<Case>& cases, const ModelFacts& facts = {},
            std::optional<std::string_view> other = "model.layers.0.mlp.up_proj.weight") {
  std::vector<std::string_view> names;
  for (const Case& one : cases) names.push_back(one.module);
  if (other) names.push_back(*other);
  const LayerRules rules(names, facts);
  for (const Case& one : cases) {
    EXPECT_EQ(name_of(rules.reason(one.module, one.shape, facts)), name_of(one.kept)) << one.module;
  }
}

TEST(KeptLayers, lets_ordinary_layers_be_quantized) {
  expect({{"model.layers.0.self_attn.q_proj", Kept::no},
          {"model.layers.0.mlp.gate_proj", Kept::no},
          {"model.layers.3.mlp.shared_expert.up_proj", Kept::no},
          {"model.layers.0.block_sparse_moe.experts.7.w2", Kept::no},
          {"encoder.layer.0.output.dense", Kept::no},
          {"layers.0.attention.output", Kept::no},
          {"rwkv.blocks.0.attention.gate", Kept::no}});
}

TEST(KeptLayers, heads_and_embeddings) {
  expect({{"model.embed_tokens", Kept::embedding},
          {"transformer.wte", Kept::embedding},
          {"emb", Kept::embedding},
          {"model.layers.0.ngram_emb", Kept::embedding},
          {"model.layers.0.attn.bias_table", Kept::embedding},
          {"model.layers.0.embedder", Kept::embedding},
          {"lm_head", Kept::output_head},
          {"model.lm_head.linear", Kept::output_head},
          {"head", Kept::output_head},
          {"language_model.output", Kept::output_head},
          {"transformer.output_layer", Kept::output_head},
          {"model.transformer.ff_out", Kept::output_head},
          {"cls.predictions.transform.dense", Kept::output_head},
          {"score", Kept::scorer},
          {"v_head.summary", Kept::scorer},
          {"classifier.out_proj", Kept::scorer}});
}

TEST(KeptLayers, head_by_its_shape) {
  ModelFacts facts;
  facts.vocab_size = 32000;
  facts.hidden_size = 512;
  expect({{"model.unusual", Kept::output_head, {32000, 512}},
          {"model.unheard_of", Kept::outside, {1024, 512}}},
         facts);
}

TEST(KeptLayers, routers_and_tiny_matrices) {
  expect({{"model.layers.0.mlp.gate", Kept::router},
          {"model.layers.0.mlp.gate.wg", Kept::router},
          {"model.layers.0.mlp.shared_expert_gate", Kept::router},
          {"model.layers.0.block_sparse_moe.router.layer", Kept::router},
          {"model.layers.0.mlp.router_linear", Kept::router},
          {"model.layers.0.mlp.ffn_gate_inp", Kept::router},
          {"model.layers.0.mlp.topk_gate", Kept::router},
          {"model.layers.0.mlp.expert_selector", Kept::router},
          {"model.layers.0.mlp.gate_proj", Kept::no, {512, 512}},
          {"model.layers.0.self_attn.indexer.weights_proj", Kept::indexer},
          {"model.layers.0.self_attn.indexer.wk", Kept::indexer},
          {"model.layers.0.self_attn.wk", Kept::no, {512, 512}},
          {"model.layers.0.linear_attn.in_proj_a", Kept::tiny, {32, 512}},
          {"model.layers.0.linear_attn.in_proj_qkv", Kept::no, {512, 512}},
          {"model.layers.0.self_attn.b_proj", Kept::tiny, {16, 512}},
          {"model.layers.0.mlp.down_proj", Kept::no, {32, 64}}});
}

TEST(KeptLayers, towers_projectors_and_what_lies_outside) {
  expect({{"vision_tower.encoder.layers.0.q_proj", Kept::vision},
          {"visual.blocks.0.attn.qkv", Kept::vision},
          {"model.my_image_tower.layers.0.fc1", Kept::vision},
          {"audio_tower.layers.0.fc1", Kept::audio},
          {"token2wav.blocks.0.fc", Kept::audio},
          {"multi_modal_projector.linear_1", Kept::projector},
          {"mlp1.1", Kept::projector},
          {"model.aligner.layers.0", Kept::projector},
          {"model.resampler.layers.0.attn.q_proj", Kept::projector},
          {"pooler.dense", Kept::outside},
          {"something.new", Kept::outside}});
}

TEST(KeptLayers, without_repeated_layers_nothing_lies_outside) {
  expect({{"fc1", Kept::no}, {"pooler.dense", Kept::no}}, {}, std::nullopt);
}

TEST(KeptLayers, prediction_layers_by_name_number_and_marks) {
  ModelFacts facts;
  facts.layers = 61;
  expect({{"mtp.layers.0.mlp.up_proj", Kept::prediction_layer},
          {"nextn_layers.0.o_proj", Kept::prediction_layer},
          {"model.layers.61.self_attn.o_proj", Kept::prediction_layer},
          {"model.layers.60.self_attn.o_proj", Kept::no}},
         facts);
  expect({{"model.language_model.layers.61.o_proj", Kept::prediction_layer}}, facts);
  facts.model_type = "medusa";  // heads alone, which vLLM builds dense
  expect({{"0.0.linear", Kept::prediction_layer, {512, 512}}}, facts);
  expect({{"model.layers.9.eh_proj", Kept::prediction_layer},
          {"model.layers.9.mlp.up_proj", Kept::prediction_layer},
          {"model.layers.8.mlp.up_proj", Kept::no}});
}

TEST(KeptLayers, other_stacks_beside_a_language_model) {
  expect({{"language_model.model.layers.0.up_proj", Kept::no},
          {"encoder.layers.0.fc1", Kept::other_stack}},
         {}, std::nullopt);
  ModelFacts facts;
  facts.multimodal = true;
  expect({{"tower.blocks.0.fc1", Kept::other_stack}, {"model.layers.1.fc1", Kept::no}}, facts);
  expect({{"model.encoder.layers.0.fc1", Kept::no}, {"model.decoder.layers.0.fc1", Kept::no}}, {},
         std::nullopt);
}

TEST(KeptLayers, encoder_that_is_the_model_is_no_tower) {
  expect({{"vit.encoder.layer.0.attention.attention.query", Kept::no},
          {"vit.embeddings.patch_embeddings.projection", Kept::vision}},
         {}, std::nullopt);
}

TEST(KeptLayers, diffusion_models) {
  const std::vector<Case> cases{{"img_in", Kept::input_layer},
                                {"time_in.in_layer", Kept::input_layer},
                                {"final_layer.linear", Kept::output_layer},
                                {"proj_out", Kept::output_layer},
                                {"final_layer.adaLN_modulation.1", Kept::modulation},
                                {"double_blocks.0.img_mod.lin", Kept::modulation},
                                {"single_blocks.0.modulation.lin", Kept::modulation},
                                {"double_blocks.0.img_attn.qkv", Kept::no},
                                {"single_blocks.0.linear1", Kept::no}};
  expect(cases, {}, std::nullopt);
  ModelFacts facts;
  facts.diffusion = true;
  expect({{"transformer_blocks.0.norm1.linear", Kept::modulation},
          {"single_transformer_blocks.0.proj_out", Kept::no},
          {"transformer_blocks.0.attn.to_q", Kept::no},
          {"norm_out.linear", Kept::modulation},
          {"x_embedder", Kept::input_layer}},
         facts, std::nullopt);
}

TEST(KeptLayers, adapters_and_transposed_layers) {
  ModelFacts facts;
  facts.model_type = "gpt2";
  expect({{"h.0.attn.c_attn", Kept::conv1d}, {"h.0.attn.lora_A.default", Kept::adapter}}, facts);
}

TEST(KeptLayers, each_reason_has_a_word_and_a_phrase) {
  for (int kept = 1; kept <= static_cast<int>(Kept::not_included); ++kept) {
    EXPECT_FALSE(name_of(static_cast<Kept>(kept)).empty()) << kept;
    EXPECT_FALSE(phrase_of(static_cast<Kept>(kept)).empty()) << kept;
  }
  EXPECT_EQ(name_of(Kept::not_included), "not_included");
}

}  // namespace
}  // namespace microscale
