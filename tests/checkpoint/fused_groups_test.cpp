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
  for (const char* module : {"l.0.mlp.shared_experts.0.up_proj", "l.experts.a.b", "l.experts.3",
                             "l.experts.gate_up_proj", "l.0.mlp.up_proj"}) {
    EXPECT_FALSE(expert_layer_of(module)) << module;
  }
}

}  // namespace
}  // namespace microscale
