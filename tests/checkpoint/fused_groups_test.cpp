#include "checkpoint/fused_groups.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(FusedGroups, puts_members_of_one_parent_together) {
  const auto q = fused_group_of("model.layers.0.self_attn.q_proj");
  ASSERT_TRUE(q);
  EXPECT_EQ(*q, "model.layers.0.self_attn.{q_proj,k_proj,v_proj}");
  EXPECT_EQ(fused_group_of("model.layers.0.self_attn.v_proj"), q);
  EXPECT_NE(fused_group_of("model.layers.1.self_attn.q_proj"), q);
  EXPECT_EQ(fused_group_of("a.gate_proj"), fused_group_of("a.up_proj"));
  EXPECT_EQ(fused_group_of("a.experts.3.w1"), fused_group_of("a.experts.3.w3"));
  EXPECT_EQ(fused_group_of("a.self.query"), fused_group_of("a.self.value"));
  EXPECT_EQ(fused_group_of("a.q_a_proj"), fused_group_of("a.kv_a_proj_with_mqa"));
  EXPECT_EQ(fused_group_of("a.attn.wq_a"), fused_group_of("a.attn.wkv"));
  EXPECT_EQ(fused_group_of("a.mlp.fc11"), fused_group_of("a.mlp.fc12"));
}

TEST(FusedGroups, some_names_belong_together_in_one_place_only) {
  // Qwen 1: gate_up_proj of vLLM is w2 and w1; everywhere else w2 comes after w1 and w3.
  const std::string qwen = "transformer.h.0.mlp.";
  EXPECT_EQ(fused_group_of(qwen + "w1"), qwen + "{w1,w2}");
  EXPECT_EQ(fused_group_of(qwen + "w2"), qwen + "{w1,w2}");
  EXPECT_EQ(fused_name_of(qwen + "w2"), qwen + "gate_up_proj");
  for (const char* parent :
       {"layers.0.mlp.", "h.0.ffn.", "h.mlp.", "block_sparse_moe.experts.3."}) {
    EXPECT_EQ(fused_group_of(parent + std::string("w1")), parent + std::string("{w1,w3}"));
    EXPECT_FALSE(fused_group_of(parent + std::string("w2"))) << parent;
  }
  // Grok 1.
  const std::string grok = "transformer.decoder_layer.1.moe.2.";
  EXPECT_EQ(fused_group_of(grok + "linear"), grok + "{linear,linear_v}");
  EXPECT_EQ(fused_group_of(grok + "linear_v"), fused_group_of(grok + "linear"));
  EXPECT_FALSE(fused_group_of(grok + "linear_1"));
  EXPECT_FALSE(fused_group_of("blocks.0.norm1.linear"));
  EXPECT_FALSE(fused_group_of("transformer.decoder_layer.1.multi_head_attention.linear"));
  // Olmo Hybrid.
  EXPECT_EQ(fused_group_of("l.0.linear_attn.q_proj"), fused_group_of("l.0.linear_attn.g_proj"));
  EXPECT_NE(fused_group_of("l.0.self_attn.q_proj"), fused_group_of("l.0.self_attn.g_proj"));
}

TEST(FusedGroups, leaves_single_layers_alone) {
  for (const char* module :
       {"a.o_proj", "a.down_proj", "a.w2", "a.q_b_proj", "a.proj", "qq", "a."}) {
    EXPECT_FALSE(fused_group_of(module)) << module;
  }
  EXPECT_EQ(fused_group_of("q_proj"), "{q_proj,k_proj,v_proj}");
}

TEST(FusedGroups, name_the_layer_that_engines_make) {
  EXPECT_EQ(fused_name_of("l.self_attn.k_proj"), "l.self_attn.qkv_proj");
  EXPECT_EQ(fused_name_of("l.mlp.up_proj"), "l.mlp.gate_up_proj");
  EXPECT_EQ(fused_name_of("l.mlp.down_proj"), std::nullopt);
}

TEST(FusedGroups, find_the_layer_of_an_expert) {
  EXPECT_EQ(expert_layer_of("l.0.mlp.experts.7.up_proj"), "l.0.mlp.experts");
  EXPECT_EQ(expert_layer_of("experts.0.w1"), "experts");
  EXPECT_EQ(expert_layer_of("l.0.moe.7.linear_1"), "l.0.moe");
  for (const char* module : {"l.0.mlp.shared_experts.0.up_proj", "l.experts.a.b", "l.experts.3",
                             "l.experts.gate_up_proj", "l.0.mlp.up_proj"}) {
    EXPECT_FALSE(expert_layer_of(module)) << module;
  }
}

}  // namespace
}  // namespace microscale
