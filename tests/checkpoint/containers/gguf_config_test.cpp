#include "checkpoint/containers/gguf_config.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "checkpoint/containers/gguf_small.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;
using Json = nlohmann::ordered_json;

GgufFile opened(const GgufBuilder& builder) {
  const TemporaryFolder folder;
  write_file(folder / "m.gguf", builder.file());
  return take(open_gguf(folder / "m.gguf"));
}

Json config_of(const GgufBuilder& builder) {
  return Json::parse(take(gguf_config(opened(builder))));
}

TEST(GgufConfig, a_llama) {
  GgufBuilder builder = small_metadata("llama");
  builder.value("llama.rope.freq_base", gguf_number(GgufValueType::f32, 500000.0f));
  builder.value("llama.rope.dimension_count", gguf_u32(16));
  const Json config = config_of(add_small_tensors(add_small_tokenizer(builder, "smollm")));
  const Json wanted{{"architectures", {"LlamaForCausalLM"}},
                    {"model_type", "llama"},
                    {"hidden_size", 64},
                    {"intermediate_size", 96},
                    {"num_hidden_layers", 1},
                    {"num_attention_heads", 4},
                    {"num_key_value_heads", 2},
                    {"max_position_embeddings", 512},
                    {"rms_norm_eps", 1e-5},
                    {"head_dim", 16},
                    {"vocab_size", 6},
                    {"tie_word_embeddings", true},
                    {"hidden_act", "silu"},
                    {"attention_bias", false},
                    {"mlp_bias", false},
                    {"rope_theta", 500000.0},
                    {"eos_token_id", 5}};
  EXPECT_EQ(config, wanted);
}

TEST(GgufConfig, what_each_family_says_besides) {
  GgufBuilder qwen2 = small_metadata("qwen2");
  add_small_tensors(qwen2).tensor("output.weight", GgufType::q8_0, {64, 6}, q8_0_blocks(12));
  EXPECT_EQ(config_of(qwen2)["tie_word_embeddings"], false);
  EXPECT_EQ(config_of(qwen2)["head_dim"], 16);

  GgufBuilder moe = small_metadata("qwen3moe");
  moe.value("qwen3moe.expert_count", gguf_u32(8));
  moe.value("qwen3moe.expert_used_count", gguf_u32(2));
  moe.value("qwen3moe.expert_feed_forward_length", gguf_u32(48));
  moe.value("qwen3moe.attention.key_length", gguf_u32(128));
  const Json mixture = config_of(add_small_tensors(moe));
  EXPECT_EQ(mixture["model_type"], "qwen3_moe");
  EXPECT_EQ(mixture["num_experts"], 8);
  EXPECT_EQ(mixture["num_experts_per_tok"], 2);
  EXPECT_EQ(mixture["moe_intermediate_size"], 48);
  EXPECT_EQ(mixture["head_dim"], 128);
  EXPECT_EQ(mixture["norm_topk_prob"], true);

  GgufBuilder sinks = small_metadata("gpt-oss");
  sinks.value("gpt-oss.expert_count", gguf_u32(8));
  sinks.value("gpt-oss.expert_used_count", gguf_u32(2));
  sinks.value("gpt-oss.expert_feed_forward_length", gguf_u32(48));
  sinks.value("gpt-oss.attention.sliding_window", gguf_u32(128));
  sinks.value("gpt-oss.rope.scaling.type", gguf_text("yarn"));
  sinks.value("gpt-oss.rope.scaling.factor", gguf_number(GgufValueType::f32, 32.0f));
  sinks.value("gpt-oss.rope.scaling.original_context_length", gguf_u32(4096));
  const Json open = config_of(add_small_tensors(sinks));
  EXPECT_EQ(open["model_type"], "gpt_oss");
  EXPECT_EQ(open["num_local_experts"], 8);
  EXPECT_EQ(open["intermediate_size"], 48);
  EXPECT_EQ(open["sliding_window"], 128);
  EXPECT_EQ(open["rope_theta"], 150000);
  EXPECT_EQ(open["rope_scaling"], (Json{{"rope_type", "yarn"},
                                        {"factor", 32.0},
                                        {"original_max_position_embeddings", 4096},
                                        {"truncate", false}}));

  GgufBuilder gemma = small_metadata("gemma3");
  gemma.value("gemma3.attention.sliding_window", gguf_u32(512));
  gemma.value("gemma3.rope.scaling.type", gguf_text("linear"));
  gemma.value("gemma3.rope.scaling.factor", gguf_number(GgufValueType::f32, 8.0f));
  const Json text = config_of(add_small_tensors(gemma));
  EXPECT_EQ(text["model_type"], "gemma3_text");
  EXPECT_EQ(text["query_pre_attn_scalar"], 16);
  EXPECT_EQ(text["sliding_window"], 512);
  EXPECT_EQ(text["rope_theta"], 1000000);
  EXPECT_EQ(text["rope_scaling"], (Json{{"rope_type", "linear"}, {"factor", 8.0}}));
  EXPECT_FALSE(text.contains("hidden_act"));
}

TEST(GgufConfig, what_a_model_cannot_be_built_without_is_named) {
  GgufBuilder builder;
  builder.value("general.architecture", gguf_text("llama"));
  EXPECT_TRUE(fails_with(gguf_config(opened(builder)), "does not say llama.embedding_length"));
  EXPECT_TRUE(fails_with(gguf_config(opened(small_metadata("qwen3"))), "token_embd.weight"));
}

TEST(GgufConfig, generation_ends_where_a_turn_does) {
  GgufBuilder builder = small_metadata("llama");
  add_small_tokenizer(builder, "smollm").value("tokenizer.ggml.eot_token_id", gguf_u32(4));
  EXPECT_EQ(Json::parse(gguf_generation_config(opened(builder)))["eos_token_id"], (Json{5, 4}));
  EXPECT_EQ(Json::parse(gguf_generation_config(opened(small_metadata("llama")))), Json::object());
}

// The frequencies of Llama 3.1, for heads of 16 and a base of 500000.
std::vector<float> llama3_factors(double factor) {
  std::vector<float> factors;
  for (int i = 0; i < 8; ++i) {
    const double wave = 2 * std::numbers::pi * std::pow(500000.0, i / 8.0);
    const double smooth = (8192 / wave - 1) / 3;
    factors.push_back(static_cast<float>(wave < 2048   ? 1
                                         : wave > 8192 ? factor
                                                       : 1 / ((1 - smooth) / factor + smooth)));
  }
  return factors;
}

TEST(GgufConfig, frequencies_of_llama_3_1_are_recognized) {
  const auto with = [](const std::vector<float>& factors) {
    GgufBuilder builder = small_metadata("llama");
    builder.value("llama.rope.freq_base", gguf_number(GgufValueType::f32, 500000.0f));
    add_small_tensors(builder).tensor("rope_freqs.weight", GgufType::f32, {factors.size()},
                                      float_bytes(factors));
    return opened(builder);
  };
  const GgufFile file = with(llama3_factors(32));
  EXPECT_EQ(take(gguf_llama3_factor(file)), 32.0f);
  EXPECT_EQ(Json::parse(take(gguf_config(file)))["rope_scaling"],
            (Json{{"rope_type", "llama3"},
                  {"factor", 32.0},
                  {"low_freq_factor", 1.0},
                  {"high_freq_factor", 4.0},
                  {"original_max_position_embeddings", 8192}}));
  EXPECT_EQ(take(gguf_llama3_factor(with(std::vector<float>(8, 1.0f)))), 0.0f);
  std::vector<float> other = llama3_factors(8);
  other[2] = 3;
  EXPECT_TRUE(fails_with(gguf_config(with(other)), "number 2 is 3, not 1.0000"));
}

}  // namespace
}  // namespace microscale
