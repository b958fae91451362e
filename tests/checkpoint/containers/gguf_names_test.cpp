#include "checkpoint/containers/gguf_names.hpp"

#include <gtest/gtest.h>

#include <string>

namespace microscale {
namespace {

std::string renamed(std::string_view architecture, std::string_view name) {
  const auto found = hugging_face_name(architecture, name);
  return found ? found->name : "none";
}

TEST(GgufNames, layers_and_what_lies_outside) {
  for (const char* architecture : {"llama", "qwen2", "qwen3", "qwen3moe", "gemma3"}) {
    EXPECT_TRUE(has_gguf_names(architecture));
    EXPECT_EQ(renamed(architecture, "token_embd.weight"), "model.embed_tokens.weight");
    EXPECT_EQ(renamed(architecture, "output_norm.weight"), "model.norm.weight");
    EXPECT_EQ(renamed(architecture, "output.weight"), "lm_head.weight");
    EXPECT_EQ(renamed(architecture, "blk.12.attn_q.weight"),
              "model.layers.12.self_attn.q_proj.weight");
    EXPECT_EQ(renamed(architecture, "blk.0.attn_k.bias"), "model.layers.0.self_attn.k_proj.bias");
    EXPECT_EQ(renamed(architecture, "blk.3.attn_output.weight"),
              "model.layers.3.self_attn.o_proj.weight");
    EXPECT_EQ(renamed(architecture, "blk.3.attn_norm.weight"),
              "model.layers.3.input_layernorm.weight");
    EXPECT_EQ(renamed(architecture, "blk.3.ffn_down.weight"),
              "model.layers.3.mlp.down_proj.weight");
  }
  EXPECT_FALSE(has_gguf_names("gpt2"));
}

TEST(GgufNames, the_norm_before_the_mlp_has_another_name_in_gemma) {
  EXPECT_EQ(renamed("qwen2", "blk.0.ffn_norm.weight"),
            "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(renamed("gemma3", "blk.0.ffn_norm.weight"),
            "model.layers.0.pre_feedforward_layernorm.weight");
  EXPECT_EQ(renamed("gemma3", "blk.0.post_attention_norm.weight"),
            "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(renamed("gemma3", "blk.0.post_ffw_norm.weight"),
            "model.layers.0.post_feedforward_layernorm.weight");
  EXPECT_EQ(renamed("llama", "blk.0.post_ffw_norm.weight"), "none");
}

TEST(GgufNames, experts_are_those_of_mixtures) {
  const auto found = hugging_face_name("qwen3moe", "blk.7.ffn_up_exps.weight");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "model.layers.7.mlp.experts.{}.up_proj.weight");
  EXPECT_TRUE(found->experts);
  EXPECT_EQ(renamed("qwen3moe", "blk.7.ffn_gate_inp.weight"), "model.layers.7.mlp.gate.weight");
  EXPECT_EQ(renamed("llama", "blk.7.ffn_up_exps.weight"), "none");
  EXPECT_EQ(renamed("qwen3", "blk.7.ffn_gate_inp.weight"), "none");
}

TEST(GgufNames, of_gpt_oss_are_its_router_its_sinks_and_the_biases_of_experts) {
  EXPECT_TRUE(has_gguf_names("gpt-oss"));
  EXPECT_EQ(renamed("gpt-oss", "blk.7.ffn_gate_inp.bias"), "model.layers.7.mlp.router.bias");
  EXPECT_EQ(renamed("gpt-oss", "blk.7.attn_sinks.weight"), "model.layers.7.self_attn.sinks");
  EXPECT_EQ(renamed("gpt-oss", "blk.7.attn_sinks.bias"), "none");
  EXPECT_EQ(renamed("gpt-oss", "blk.7.post_attention_norm.weight"),
            "model.layers.7.post_attention_layernorm.weight");
  const auto bias = hugging_face_name("gpt-oss", "blk.7.ffn_down_exps.bias");
  ASSERT_TRUE(bias);
  EXPECT_EQ(bias->name, "model.layers.7.mlp.experts.{}.down_proj.bias");
  EXPECT_TRUE(bias->experts);
  EXPECT_EQ(renamed("qwen3moe", "blk.7.attn_sinks.weight"), "none");
}

TEST(GgufNames, what_was_done_to_the_values) {
  EXPECT_TRUE(hugging_face_name("llama", "blk.0.attn_q.weight")->query);
  EXPECT_TRUE(hugging_face_name("llama", "blk.0.attn_k.bias")->key);
  EXPECT_FALSE(hugging_face_name("llama", "blk.0.attn_v.weight")->query);
  EXPECT_FALSE(hugging_face_name("qwen2", "blk.0.attn_q.weight")->query);
  EXPECT_FALSE(hugging_face_name("llama", "blk.0.attn_norm.weight")->plus_one);
  for (const char* name : {"output_norm.weight", "blk.0.attn_norm.weight",
                           "blk.0.attn_q_norm.weight", "blk.0.post_ffw_norm.weight"}) {
    EXPECT_TRUE(hugging_face_name("gemma3", name)->plus_one) << name;
  }
  EXPECT_FALSE(hugging_face_name("gemma3", "blk.0.ffn_up.weight")->plus_one);
}

TEST(GgufNames, other_names_have_none) {
  for (const char* name : {"", "blk", "blk.", "blk.0", "blk.x.attn_q.weight", "blk..attn_q.weight",
                           "blk.0.attn_qkv.weight", "token_embd", "token_embd.scale", ".weight",
                           "blk.0.attn_q", "blk.0.0.attn_q.weight", "attn_q.weight"}) {
    EXPECT_EQ(renamed("llama", name), "none") << name;
  }
}

TEST(GgufNames, the_way_back_is_the_inverse) {
  for (const char* architecture : {"llama", "qwen2", "qwen3", "qwen3moe", "gemma3"}) {
    for (const std::string part : {"attn_q", "attn_k", "attn_v", "attn_output", "attn_norm",
                                   "ffn_norm", "attn_q_norm", "ffn_gate", "ffn_up", "ffn_down",
                                   "ffn_gate_inp", "post_attention_norm", "post_ffw_norm"}) {
      const std::string name = "blk.12." + part + ".weight";
      const auto there = hugging_face_name(architecture, name);
      if (!there) continue;
      const auto back = gguf_place_of(architecture, there->name);
      ASSERT_TRUE(back) << there->name;
      EXPECT_EQ(back->name.name, name);
      EXPECT_EQ(back->name.query, there->query);
      EXPECT_EQ(back->name.key, there->key);
      EXPECT_EQ(back->name.plus_one, there->plus_one);
      EXPECT_FALSE(back->expert);
    }
    EXPECT_EQ(gguf_place_of(architecture, "lm_head.weight")->name.name, "output.weight");
  }
}

TEST(GgufNames, experts_go_to_their_place_in_one_tensor) {
  const auto place = gguf_place_of("qwen3moe", "model.layers.7.mlp.experts.17.up_proj.weight");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->name.name, "blk.7.ffn_up_exps.weight");
  EXPECT_TRUE(place->name.experts);
  EXPECT_EQ(place->expert, 17);
  for (const char* name :
       {"model.layers.7.mlp.experts.up_proj.weight", "model.layers.7.mlp.experts.x.up_proj.weight",
        "model.layers.7.mlp.experts.1.gate.weight"})
    EXPECT_FALSE(gguf_place_of("qwen3moe", name)) << name;
  EXPECT_FALSE(gguf_place_of("llama", "model.layers.7.mlp.experts.17.up_proj.weight"));
}

TEST(GgufNames, what_encloses_a_language_model_does_not_matter) {
  for (const char* name :
       {"model.language_model.layers.0.mlp.up_proj.weight",
        "language_model.model.layers.0.mlp.up_proj.weight", "layers.0.mlp.up_proj.weight"})
    EXPECT_EQ(gguf_place_of("gemma3", name)->name.name, "blk.0.ffn_up.weight") << name;
  EXPECT_EQ(gguf_place_of("gemma3", "language_model.lm_head.weight")->name.name, "output.weight");
  for (const char* name : {"vision_tower.layers.0.mlp.up_proj.weight", "model.layers.0", "",
                           "model.layers.x.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.scale"})
    EXPECT_FALSE(gguf_place_of("gemma3", name)) << name;
}

}  // namespace
}  // namespace microscale
