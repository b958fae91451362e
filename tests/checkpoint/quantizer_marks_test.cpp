#include "checkpoint/quantizer_marks.hpp"

#include <gtest/gtest.h>

#include <map>

namespace microscale {
namespace {

using enum QuantizingTool;

// Names and types of one model; shapes are [64, 64] unless the name is that of a scale.
std::optional<QuantizerMark> mark_of(const std::string& name,
                                     const std::map<std::string, StoredType>& tensors,
                                     std::vector<std::int64_t> shape = {64, 64}) {
  std::map<std::string, TensorEntry> entries;
  for (const auto& [key, type] : tensors) {
    entries[key].name = key;
    entries[key].type = type;
    entries[key].shape = {64, 64};
  }
  entries.at(name).shape = std::move(shape);
  return find_quantizer_mark(entries.at(name), [&](std::string_view wanted) -> const TensorEntry* {
    const auto found = entries.find(std::string(wanted));
    return found == entries.end() ? nullptr : &found->second;
  });
}

struct Layout {
  std::map<std::string, StoredType> tensors;  // every one of them shows the tool
  QuantizingTool tool;
};

TEST(QuantizerMarks, every_tensor_of_a_layout_shows_its_tool) {
  constexpr StoredType u8 = StoredType::u8, i8 = StoredType::i8, i32 = StoredType::i32,
                       u32 = StoredType::u32, f8 = StoredType::f8_e4m3, f32 = StoredType::f32,
                       f16 = StoredType::f16, e8 = StoredType::f8_e8m0;
  const std::vector<Layout> layouts{
      {{{"p.weight_packed", u8}, {"p.weight_scale", f8}, {"p.weight_global_scale", f32}},
       compressed_tensors},
      {{{"p.weight_packed", i32}, {"p.weight_scale", f16}}, compressed_tensors},
      {{{"p.weight", u8}, {"p.weight_scale", f8}, {"p.weight_scale_2", f32}}, modelopt},
      {{{"p.weight", f8}, {"p.weight_scale", u8}}, modelopt},
      {{{"p.weight", f8}, {"p.weight_scale_inv", f32}}, fp8},
      {{{"p.weight", f8}, {"p.weight_scale", f32}}, fp8},
      {{{"m.experts.gate_up_proj", f8}, {"m.experts.gate_up_proj_scale_inv", f32}}, fp8},
      {{{"p.weight", f8}}, fp8_bare},
      {{{"p.weight", StoredType::f8_e5m2}}, fp8_bare},
      {{{"p.weight", f8}, {"p.scale", e8}}, deepseek_v4},
      {{{"e.w1.weight", i8}, {"e.w1.scale", e8}}, deepseek_v4},
      {{{"p.weight", f8}, {"p.scale_weight", f32}, {"p.scale_input", f32}}, comfyui},
      {{{"p.weight", u8}, {"p.weight_scale", f8}, {"p.comfy_quant", u8}}, comfyui},
      {{{"p.qweight", i32}, {"p.qzeros", i32}, {"p.scales", f16}, {"p.g_idx", i32}}, gptq_awq},
      {{{"p.weight", u8},
        {"p.weight.absmax", f32},
        {"p.weight.quant_map", f32},
        {"p.weight.quant_state.bitsandbytes__nf4", u8}},
       bitsandbytes},
      {{{"p.weight", i8}, {"p.SCB", f32}}, bitsandbytes},
      {{{"p.weight", u32}, {"p.scales", f16}, {"p.biases", f16}}, mlx},
      {{{"p.W_q", u8}}, hqq},
      {{{"p.weight._data", i8}, {"p.weight._scale", f32}}, quanto},
      {{{"p.weight", i8}, {"p.weight_scales", f16}}, eetq},
      {{{"p.codes", i8}, {"p.codebooks", f16}, {"p.scales", f16}}, aqlm},
      {{{"p._weight_qdata", u8}, {"p._weight_scale", f8}}, torchao},
      {{{"p.trellis", StoredType::i16}, {"p.suh", f16}, {"p.svh", f16}}, exllama},
      {{{"p.q_weight", i32}, {"p.q_scale", i32}}, exllama},
      {{{"p.Qidxs", StoredType::i64}, {"p.SU", f16}}, quip},
      {{{"p.indices", i32}, {"p.centroids", f16}}, vptq},
      {{{"p.qweight", i8}, {"p.wscales", f16}}, nunchaku},
      {{{"m.experts.gate_up_proj_blocks", u8}, {"m.experts.gate_up_proj_scales", u8}}, gpt_oss},
      {{{"b.0.mlp.mlp1_weight.blocks", u8}, {"b.0.mlp.mlp1_weight.scales", u8}}, gpt_oss},
      {{{"p.weight", i8}}, int8},
      {{{"p.weight", u8}}, packed},
      {{{"p.weight", StoredType::f4}}, packed},
      {{{"m.experts.w13", u8}}, packed},
      {{{"layers.0.ffn.kernel", i8}}, int8},
  };
  for (const Layout& layout : layouts) {
    for (const auto& [name, type] : layout.tensors) {
      const auto mark = mark_of(name, layout.tensors);
      ASSERT_TRUE(mark) << name << " of " << to_string(layout.tool);
      EXPECT_EQ(to_string(mark->tool), to_string(layout.tool)) << name;
    }
  }
}

TEST(QuantizerMarks, dense_tensors_show_none) {
  constexpr StoredType bf16 = StoredType::bf16;
  for (const char* name :
       {"p.weight", "p.bias", "p.scale", "p.scales", "p.codes", "layer_scale", "p.indices",
        "x.logit_scale", "model.layers.0.input_scale", "p.B", "norm.weight"}) {
    EXPECT_FALSE(mark_of(name, {{name, bf16}})) << name;
  }
  EXPECT_FALSE(mark_of("h.0.attn.bias", {{"h.0.attn.bias", StoredType::u8}}, {1, 1, 64, 64}));
  EXPECT_FALSE(mark_of("position_ids", {{"position_ids", StoredType::i64}}));
  EXPECT_FALSE(mark_of("gate.tid2eid", {{"gate.tid2eid", StoredType::i32}}));
  EXPECT_FALSE(mark_of("p.weight", {{"p.weight", StoredType::u8}}, {16})) << "a vector";
  EXPECT_FALSE(mark_of("p.bias", {{"p.bias", StoredType::u8}}, {64})) << "no weight";
  EXPECT_FALSE(mark_of("p.weight", {{"p.weight", bf16}}, {64})) << "a norm";
}

// Blocks of another format whose shape was lost.
TEST(QuantizerMarks, bytes_in_a_row_that_are_called_a_weight_are_codes) {
  for (const StoredType type : {StoredType::u8, StoredType::i8, StoredType::i32}) {
    const auto mark = mark_of("a.b.weight", {{"a.b.weight", type}}, {21120});
    ASSERT_TRUE(mark);
    EXPECT_EQ(mark->tool, QuantizingTool::packed);
    EXPECT_EQ(mark->module, "a.b");
  }
}

TEST(QuantizerMarks, name_the_module) {
  EXPECT_EQ(mark_of("a.b.weight_scale_inv", {{"a.b.weight_scale_inv", StoredType::f32}})->module,
            "a.b");
  EXPECT_EQ(mark_of("a.b.weight.absmax", {{"a.b.weight.absmax", StoredType::f32}})->module, "a.b");
  EXPECT_EQ(mark_of("a.b.weight", {{"a.b.weight", StoredType::i8}})->module, "a.b");
}

TEST(QuantizerMarks, leftovers_of_a_calibration) {
  EXPECT_EQ(leftover_of("a.b.input_scale"), "a.b");
  EXPECT_EQ(leftover_of("a.b.weight_zero_point"), "a.b");
  EXPECT_EQ(leftover_of("a.b.weight_quantizer._amax"), "a.b");
  EXPECT_EQ(leftover_of("a.b.weight"), std::nullopt);
  EXPECT_EQ(leftover_of("quantizer.codebook"), std::nullopt);
}

TEST(QuantizerMarks, scales_of_the_key_value_cache) {
  EXPECT_TRUE(is_kv_cache_scale("model.layers.0.self_attn.k_scale"));
  EXPECT_TRUE(is_kv_cache_scale("model.layers.0.self_attn.k_proj.k_scale"));
  EXPECT_TRUE(is_kv_cache_scale("model.layers.0.self_attn.v_proj.output_scale"));
  EXPECT_FALSE(is_kv_cache_scale("model.layers.0.mlp.up_proj.output_scale"));
  EXPECT_FALSE(is_kv_cache_scale("model.layers.0.self_attn.q_proj.weight_scale"));
}

}  // namespace
}  // namespace microscale
