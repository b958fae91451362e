#include "checkpoint/containers/gguf_layers.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

Kept kept(std::string_view name) { return gguf_layer_of(name).kept; }

TEST(GgufLayers, weights_of_layers_are_quantized) {
  for (const char* name : {"blk.0.attn_q.weight", "blk.31.ffn_down.weight", "blk.2.attn_qkv.weight",
                           "blk.2.ffn_up_shexp.weight", "blk.2.ssm_out.weight"}) {
    const GgufLayer layer = gguf_layer_of(name);
    EXPECT_TRUE(layer.linear && layer.scaled && !layer.experts && layer.kept == Kept::no) << name;
  }
  const GgufLayer experts = gguf_layer_of("blk.7.ffn_gate_exps.weight");
  EXPECT_TRUE(experts.linear && experts.scaled && experts.experts && experts.kept == Kept::no);
}

TEST(GgufLayers, some_have_no_scale_in_llama_cpp) {
  for (const char* name : {"blk.0.attn_kv_b.weight", "blk.0.attn_q_a.weight",
                           "blk.0.ffn_gate_up_exps.weight", "output.weight"}) {
    EXPECT_TRUE(gguf_layer_of(name).linear) << name;
    EXPECT_FALSE(gguf_layer_of(name).scaled) << name;
  }
}

TEST(GgufLayers, the_rest_is_kept_for_a_reason) {
  EXPECT_EQ(kept("token_embd.weight"), Kept::embedding);
  EXPECT_EQ(kept("output.weight"), Kept::output_head);
  EXPECT_EQ(kept("output_norm.weight"), Kept::norm);
  EXPECT_EQ(kept("blk.0.attn_q_norm.weight"), Kept::norm);
  EXPECT_EQ(kept("blk.0.ffn_gate_inp.weight"), Kept::router);
  EXPECT_EQ(kept("blk.0.ffn_gate_inp_shexp.weight"), Kept::router);
  EXPECT_EQ(kept("blk.40.nextn.eh_proj.weight"), Kept::prediction_layer);
  EXPECT_EQ(kept("blk.0.ssm_conv1d.weight"), Kept::other_stack);
  EXPECT_EQ(kept("blk.0.attn_q.bias"), Kept::no_weight);
  EXPECT_EQ(kept("blk.0.attn_q.scale"), Kept::no_weight);
  EXPECT_EQ(kept("v.blk.0.attn_q.weight"), Kept::outside);
  EXPECT_EQ(kept("mm.0.weight"), Kept::outside);
}

TEST(GgufLayers, names_that_only_look_like_layers) {
  for (const char* name : {"blk..attn_q.weight", "blk.x.attn_q.weight", "blk.1", "blk.weight", "",
                           ".weight", "blk.0.attn_q.weight.lora_a", "blk.0attn_q.weight"}) {
    EXPECT_FALSE(gguf_layer_of(name).linear) << name;
  }
}

TEST(GgufLayers, architectures_whose_graphs_were_read) {
  EXPECT_TRUE(applies_gguf_scales("llama"));
  EXPECT_TRUE(applies_gguf_scales("qwen3moe"));
  EXPECT_FALSE(applies_gguf_scales("phi3"));
  EXPECT_FALSE(applies_gguf_scales(""));
}

TEST(GgufLayers, feed_forward_layers_whose_scale_is_left_out) {
  for (const char* architecture : {"qwen2", "gemma3"}) {
    EXPECT_TRUE(leaves_out_gguf_scale(architecture, "blk.0.ffn_up.weight"));
    EXPECT_TRUE(leaves_out_gguf_scale(architecture, "blk.9.ffn_down.weight"));
    EXPECT_FALSE(leaves_out_gguf_scale(architecture, "blk.0.attn_q.weight"));
  }
  EXPECT_FALSE(leaves_out_gguf_scale("llama", "blk.0.ffn_up.weight"));
}

}  // namespace
}  // namespace microscale
