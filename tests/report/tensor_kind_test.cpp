#include "report/tensor_kind.hpp"

#include <gtest/gtest.h>

#include <ostream>

namespace microscale {

void PrintTo(const TensorPlace& kind, std::ostream* out) {
  *out << "{" << kind.stack << ", layer " << kind.layer << ", expert " << kind.expert << ", "
       << kind.kind << "}";
}

namespace {

struct Case {
  const char* name;
  TensorPlace want;
};

void check(std::initializer_list<Case> cases) {
  for (const Case& c : cases) EXPECT_EQ(tensor_kind(c.name), c.want) << c.name;
}

TEST(TensorKind, reads_llama_names) {
  check({{"model.layers.12.self_attn.q_proj.weight", {"", 12, -1, "q_proj"}},
         {"model.layers.0.self_attn.o_proj.weight", {"", 0, -1, "o_proj"}},
         {"model.layers.79.mlp.down_proj.weight", {"", 79, -1, "down_proj"}},
         {"model.layers.3.mlp.gate_proj.weight_packed", {"", 3, -1, "gate_proj"}},
         {"model.layers.3.self_attn.q_proj.bias", {"", 3, -1, "other"}},
         {"model.layers.3.input_layernorm.weight", {"", 3, -1, "other"}},
         {"model.embed_tokens.weight", {"", -1, -1, "other"}},
         {"lm_head.weight", {"", -1, -1, "other"}},
         {"layers.5.attention.wo.weight", {"", 5, -1, "o_proj"}},
         {"layers.5.feed_forward.w2.weight", {"", 5, -1, "down_proj"}}});
}

TEST(TensorKind, reads_bert_names) {
  check({{"encoder.layer.3.attention.self.query.weight", {"encoder", 3, -1, "q_proj"}},
         {"bert.encoder.layer.11.attention.self.value.weight", {"encoder", 11, -1, "v_proj"}},
         {"encoder.layer.3.attention.output.dense.weight", {"encoder", 3, -1, "o_proj"}},
         {"encoder.layer.3.attention.output.LayerNorm.weight", {"encoder", 3, -1, "other"}},
         {"encoder.layer.3.intermediate.dense.weight", {"encoder", 3, -1, "up_proj"}},
         {"encoder.layer.3.output.dense.weight", {"encoder", 3, -1, "down_proj"}},
         {"pooler.dense.weight", {"", -1, -1, "other"}}});
}

TEST(TensorKind, reads_mixture_of_experts_names) {
  check({{"model.layers.7.block_sparse_moe.experts.3.w1.weight", {"", 7, 3, "experts.gate_proj"}},
         {"model.layers.7.block_sparse_moe.experts.3.w2.weight", {"", 7, 3, "experts.down_proj"}},
         {"model.layers.7.block_sparse_moe.experts.3.w3.weight", {"", 7, 3, "experts.up_proj"}},
         {"model.layers.7.block_sparse_moe.gate.weight", {"", 7, -1, "router"}},
         {"model.layers.2.mlp.experts.gate_up_proj_blocks", {"", 2, -1, "experts.gate_up_proj"}},
         {"model.layers.2.mlp.experts.down_proj", {"", 2, -1, "experts.down_proj"}},
         {"model.layers.2.mlp.experts.down_proj_bias", {"", 2, -1, "other"}},
         {"model.layers.2.mlp.router.weight", {"", 2, -1, "router"}},
         {"model.layers.2.self_attn.sinks", {"", 2, -1, "other"}}});
}

TEST(TensorKind, reads_deepseek_names) {
  check({{"model.layers.4.self_attn.q_a_proj.weight", {"", 4, -1, "q_a_proj"}},
         {"model.layers.4.self_attn.q_b_proj.weight", {"", 4, -1, "q_b_proj"}},
         {"model.layers.4.self_attn.kv_a_proj_with_mqa.weight", {"", 4, -1, "kv_a_proj"}},
         {"model.layers.4.self_attn.kv_b_proj.weight", {"", 4, -1, "kv_b_proj"}},
         {"model.layers.4.self_attn.q_a_layernorm.weight", {"", 4, -1, "other"}},
         {"model.layers.4.mlp.experts.255.up_proj.weight", {"", 4, 255, "experts.up_proj"}},
         {"model.layers.4.mlp.shared_experts.down_proj.weight", {"", 4, -1, "shared.down_proj"}},
         {"model.layers.4.mlp.gate.weight", {"", 4, -1, "router"}},
         {"model.layers.4.mlp.gate.e_score_correction_bias", {"", 4, -1, "other"}}});
}

TEST(TensorKind, reads_other_families) {
  check(
      {{"transformer.h.6.attn.c_attn.weight", {"", 6, -1, "qkv_proj"}},
       {"transformer.h.6.attn.c_proj.weight", {"", 6, -1, "o_proj"}},
       {"transformer.h.6.mlp.c_proj.weight", {"", 6, -1, "down_proj"}},
       {"gpt_neox.layers.1.attention.query_key_value.weight", {"", 1, -1, "qkv_proj"}},
       {"gpt_neox.layers.1.mlp.dense_4h_to_h.weight", {"", 1, -1, "down_proj"}},
       {"encoder.block.2.layer.0.SelfAttention.q.weight", {"encoder", 2, -1, "q_proj"}},
       {"decoder.block.2.layer.1.EncDecAttention.o.weight", {"decoder", 2, -1, "cross.o_proj"}},
       {"decoder.block.2.layer.2.DenseReluDense.wo.weight", {"decoder", 2, -1, "down_proj"}},
       {"model.decoder.layers.0.encoder_attn.out_proj.weight", {"decoder", 0, -1, "cross.o_proj"}},
       {"visual.blocks.9.attn.qkv.weight", {"vision", 9, -1, "qkv_proj"}},
       {"vision_tower.vision_model.encoder.layers.1.mlp.fc1.weight", {"vision", 1, -1, "up_proj"}},
       {"backbone.layers.3.mixer.in_proj.weight", {"", 3, -1, "in_proj"}}});
}

TEST(TensorKind, calls_odd_names_other) {
  for (const char* name : {"", ".", "..", "layers", "layers.", "layers.1", "layers.x.q_proj.weight",
                           "layers.99999999999999999999.q_proj.weight", "layers.-1.q_proj.weight",
                           "layers.1.", "layers.1.experts", "layers.1.experts.", "weight"}) {
    EXPECT_EQ(tensor_kind(name).kind, "other") << name;
  }
}

TEST(TensorKind, orders_kinds_as_a_layer_works) {
  const char* in_order[] = {"qkv_proj",
                            "q_proj",
                            "k_proj",
                            "v_proj",
                            "o_proj",
                            "cross.q_proj",
                            "router",
                            "gate_proj",
                            "up_proj",
                            "down_proj",
                            "shared.gate_proj",
                            "experts.gate_up_proj",
                            "experts.down_proj",
                            "other"};
  for (std::size_t i = 0; i + 1 < std::size(in_order); ++i) {
    EXPECT_LT(kind_order(in_order[i]), kind_order(in_order[i + 1])) << in_order[i];
  }
}

}  // namespace
}  // namespace microscale
