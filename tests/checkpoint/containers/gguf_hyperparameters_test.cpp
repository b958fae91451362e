#include "checkpoint/containers/gguf_hyperparameters.hpp"

#include <gtest/gtest.h>

#include <map>

#include "checkpoint/containers/gguf_builder.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;

const std::string sizes =
    R"("hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
       "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
       "vocab_size": 100)";

std::string config(const std::string& type, const std::string& more = "") {
  return "{\"model_type\": \"" + type + "\", " + sizes + (more.empty() ? "" : ", " + more) + "}";
}

std::map<std::string, std::string> entries_of(const std::string& text) {
  GgufMetadata metadata;
  take(add_gguf_hyperparameters(text, metadata));
  return {metadata.entries().begin(), metadata.entries().end()};
}

::testing::AssertionResult refused(const std::string& text, const std::string& phrase) {
  GgufMetadata metadata;
  return fails_with(add_gguf_hyperparameters(text, metadata), phrase);
}

TEST(GgufHyperparameters, numbers_that_every_architecture_has) {
  const auto entries = entries_of(config("llama", R"("rope_theta": 500000.0)"));
  EXPECT_EQ(entries.at("general.architecture"), gguf_text("llama"));
  EXPECT_EQ(entries.at("llama.block_count"), gguf_u32(2));
  EXPECT_EQ(entries.at("llama.embedding_length"), gguf_u32(64));
  EXPECT_EQ(entries.at("llama.attention.head_count_kv"), gguf_u32(2));
  EXPECT_EQ(entries.at("llama.attention.layer_norm_rms_epsilon"),
            gguf_number(GgufValueType::f32, 1e-5f));
  EXPECT_EQ(entries.at("llama.rope.freq_base"), gguf_number(GgufValueType::f32, 500000.0f));
  EXPECT_EQ(entries.at("llama.rope.dimension_count"), gguf_u32(16));
  EXPECT_FALSE(entries.contains("llama.attention.key_length"));
}

TEST(GgufHyperparameters, families_and_their_architectures) {
  for (const auto& [type, architecture] :
       {std::pair{"mistral", "llama"}, {"qwen2", "qwen2"}, {"qwen3", "qwen3"}})
    EXPECT_EQ(entries_of(config(type)).at("general.architecture"), gguf_text(architecture));
  const auto experts = entries_of(config(
      "qwen3_moe",
      R"("num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 32)"));
  EXPECT_EQ(experts.at("qwen3moe.expert_count"), gguf_u32(8));
  EXPECT_EQ(experts.at("qwen3moe.expert_feed_forward_length"), gguf_u32(32));
  const auto saved = entries_of(
      config("qwen3_moe",
             R"("num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32)"));
  EXPECT_EQ(saved.at("qwen3moe.expert_count"), gguf_u32(4));
  EXPECT_EQ(experts.at("qwen3moe.attention.value_length"), gguf_u32(32));
}

TEST(GgufHyperparameters, gemma_has_defaults_and_two_rotary_bases) {
  const std::string text =
      R"({"model_type": "gemma3", "tie_word_embeddings": true, "text_config": {
          "model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 2, "sliding_window": 1024,
          "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})";
  const auto entries = entries_of(text);
  EXPECT_EQ(entries.at("gemma3.attention.head_count"), gguf_u32(8));
  EXPECT_EQ(entries.at("gemma3.attention.key_length"), gguf_u32(256));
  EXPECT_EQ(entries.at("gemma3.attention.sliding_window"), gguf_u32(1024));
  EXPECT_EQ(entries.at("gemma3.rope.freq_base"), gguf_number(GgufValueType::f32, 1e6f));
  EXPECT_EQ(entries.at("gemma3.rope.freq_base_swa"), gguf_number(GgufValueType::f32, 1e4f));
  EXPECT_EQ(entries.at("gemma3.rope.scaling.factor"), gguf_number(GgufValueType::f32, 8.0f));
  GgufMetadata metadata;
  EXPECT_TRUE(take(add_gguf_hyperparameters(text, metadata)).tied);
}

TEST(GgufHyperparameters, rotary_scaling_as_old_and_new_files_have_it) {
  const auto old =
      entries_of(config("qwen2",
                        R"("rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4.0,
         "original_max_position_embeddings": 32768})"));
  EXPECT_EQ(old.at("qwen2.rope.scaling.type"), gguf_text("yarn"));
  EXPECT_EQ(old.at("qwen2.rope.scaling.original_context_length"), gguf_u32(32768));
  const auto fresh = entries_of(
      config("qwen3", R"("rope_parameters": {"rope_type": "default", "rope_theta": 1e6})"));
  EXPECT_EQ(fresh.at("qwen3.rope.freq_base"), gguf_number(GgufValueType::f32, 1e6f));
  EXPECT_FALSE(fresh.contains("qwen3.rope.scaling.type"));
}

TEST(GgufHyperparameters, llama3_stretches_long_waves) {
  GgufMetadata metadata;
  const auto model = take(add_gguf_hyperparameters(
      config("llama", R"("head_dim": 64, "rope_theta": 500000.0, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192})"),
      metadata));
  ASSERT_EQ(model.rope_factors.size(), 32u);
  EXPECT_EQ(model.rope_factors.front(), 1.0f);
  EXPECT_EQ(model.rope_factors.back(), 8.0f);
  EXPECT_TRUE(std::is_sorted(model.rope_factors.begin(), model.rope_factors.end()));
}

TEST(GgufHyperparameters, what_llama_cpp_computes_otherwise_is_refused) {
  EXPECT_TRUE(refused("", "there is no config.json"));
  EXPECT_TRUE(refused("{", "config.json: it is not valid JSON"));
  EXPECT_TRUE(refused(config("phi3"), "config.json says 'phi3'"));
  EXPECT_TRUE(refused("{\"model_type\": \"llama\"}", "has no 'num_hidden_layers'"));
  EXPECT_TRUE(refused(config("llama", R"("hidden_act": "relu")"), "hidden_act 'relu'"));
  EXPECT_TRUE(refused(config("qwen3_moe", R"("norm_topk_prob": false)"), "norm_topk_prob false"));
  EXPECT_TRUE(
      refused(config("qwen3_moe", R"("mlp_only_layers": [0])"), "some layers have no experts"));
  EXPECT_TRUE(refused(config("gemma3_text", R"("query_pre_attn_scalar": 168)"),
                      "query_pre_attn_scalar 168"));
  EXPECT_TRUE(
      refused(config("gemma3_text", R"("sliding_window_pattern": 2)"), "sliding_window_pattern 2"));
  EXPECT_TRUE(refused(config("gemma3_text", R"("layer_types": ["full_attention"])"), "layer 0 is"));
  EXPECT_TRUE(refused(config("qwen2", R"("rope_scaling": {"rope_type": "longrope", "factor": 2})"),
                      "rope_type 'longrope'"));
  EXPECT_TRUE(refused(config("qwen3_moe"), "has no 'num_experts'"));
}

}  // namespace
}  // namespace microscale
