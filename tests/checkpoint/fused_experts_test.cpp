#include "checkpoint/fused_experts.hpp"

#include <gtest/gtest.h>

#include <set>

namespace microscale {
namespace {

using Shape = std::vector<std::int64_t>;

TEST(FusedExperts, knows_the_parts_by_name) {
  EXPECT_EQ(fused_expert_part("model.layers.0.mlp.experts.gate_up_proj"), ExpertPart::gate_up);
  EXPECT_EQ(fused_expert_part("experts.down_proj.weight"), ExpertPart::down);
  EXPECT_EQ(fused_expert_part("a.experts.gate_up_proj_bias"), ExpertPart::gate_up_bias);
  EXPECT_FALSE(fused_expert_part("a.experts.3.down_proj.weight"));
  EXPECT_FALSE(fused_expert_part("a.mlp.gate_up_proj.weight"));
  EXPECT_EQ(experts_module_of("a.mlp.experts.down_proj"), "a.mlp.experts");
}

TEST(FusedExperts, tells_the_order_of_dimensions_from_both_shapes) {
  const Shape gate_up{4, 48, 64}, down{4, 64, 24};
  EXPECT_EQ(find_expert_layout(&gate_up, &down, {}).layout,
            (ExpertLayout{4, 24, 64, false, false}));
  const Shape gate_up_t{4, 64, 48}, down_t{4, 24, 64};
  EXPECT_EQ(find_expert_layout(&gate_up_t, &down_t, {}).layout,
            (ExpertLayout{4, 24, 64, true, false}));
  // Square: 2 inner = hidden. Only the other tensor tells.
  const Shape square{2, 64, 64}, down_square{2, 64, 32}, down_square_t{2, 32, 64};
  EXPECT_FALSE(find_expert_layout(&square, &down_square, {}).layout->transposed);
  EXPECT_TRUE(find_expert_layout(&square, &down_square_t, {}).layout->transposed);
}

TEST(FusedExperts, knows_who_interleaves) {
  const auto order = [](const char* model_type, const char* architecture = "") {
    ModelFacts facts;
    facts.model_type = model_type;
    facts.architectures = {architecture};
    return expert_order_of(facts);
  };
  EXPECT_EQ(order("gpt_oss"), ExpertOrder::interleaved);
  EXPECT_EQ(order("mine", "GptOssForCausalLM"), ExpertOrder::interleaved);
  EXPECT_EQ(order("llama4"), ExpertOrder::halves);
  EXPECT_EQ(order("qwen3_vl_moe_text"), ExpertOrder::halves);
  EXPECT_EQ(order("mine"), std::nullopt);
  ModelFacts facts;
  facts.model_type = "wrapper";
  facts.text_model_type = "gpt_oss";
  EXPECT_EQ(expert_order_of(facts), ExpertOrder::interleaved);
  facts = {};
  facts.swiglu_limit = true;
  EXPECT_EQ(expert_order_of(facts), ExpertOrder::interleaved);
}

TEST(FusedExperts, finds_the_module_of_odd_layouts) {
  EXPECT_EQ(odd_experts_of("l.ffn.experts.mlp.w1", {128, 32}), "l.ffn.experts");
  EXPECT_EQ(odd_experts_of("l.experts.w13_weight", {2, 64, 32}), "l.experts");
  EXPECT_EQ(odd_experts_of("h.0.moe.input_linear.weight", {2, 64, 32}), "h.0.moe");
  EXPECT_FALSE(odd_experts_of("h.0.conv1d.weight", {64, 1, 4}));
  EXPECT_FALSE(odd_experts_of("h.0.experts.3.up_proj.weight", {64, 32}));
  EXPECT_FALSE(odd_experts_of("h.0.experts.gate_up_proj", {2, 64, 32}));
  EXPECT_FALSE(odd_experts_of("h.0.shared_experts.up_proj.weight", {64, 32}));
}

TEST(FusedExperts, gives_a_reason_when_it_cannot_tell) {
  const Shape gate_up{4, 48, 64}, down{4, 64, 24}, odd{4, 64, 20}, flat{4, 64}, fewer{3, 64, 24};
  EXPECT_EQ(find_expert_layout(&gate_up, nullptr, {}).reason,
            "fused experts without both gate_up_proj and down_proj");
  EXPECT_EQ(find_expert_layout(&gate_up, &flat, {}).reason,
            "fused experts without both gate_up_proj and down_proj");
  EXPECT_EQ(find_expert_layout(&gate_up, &odd, {}).reason,
            "the order of its dimensions cannot be told");
  EXPECT_EQ(find_expert_layout(&gate_up, &fewer, {}).reason,
            "gate_up_proj and down_proj differ in experts");
  ModelFacts facts;
  facts.hidden_size = 48;
  EXPECT_EQ(find_expert_layout(&gate_up, &down, facts).reason,
            "its shape does not fit hidden_size 48 of config.json");
}

// Whatever the layout, every element of the stored tensor belongs to exactly one slice.
TEST(FusedExperts, slices_cover_each_stored_element_once) {
  for (const bool transposed : {false, true}) {
    for (const bool interleaved : {false, true}) {
      const ExpertLayout layout{3, 5, 7, transposed, interleaved};
      for (const ExpertPart part : {ExpertPart::gate_up, ExpertPart::down, ExpertPart::gate_up_bias,
                                    ExpertPart::down_bias}) {
        std::set<std::int64_t> seen, lines;
        std::int64_t count = 0;
        for (const MatrixSlice& slice : slice_experts("experts.gate_up_proj", part, layout)) {
          for (std::int64_t row = 0; row < slice.rows; ++row) {
            EXPECT_TRUE(lines.insert(slice.line + row * slice.line_step).second);
            for (std::int64_t col = 0; col < slice.cols; ++col) {
              seen.insert(slice.element(row, col));
              ++count;
            }
          }
        }
        EXPECT_EQ(static_cast<std::int64_t>(seen.size()), count);
        EXPECT_EQ(*seen.begin(), 0);
        EXPECT_EQ(*seen.rbegin(), count - 1);
        EXPECT_EQ(*lines.rbegin(), static_cast<std::int64_t>(lines.size()) - 1);
      }
    }
  }
}

TEST(FusedExperts, places_gate_and_up_where_each_layout_has_them) {
  const auto place = [](bool transposed, bool interleaved, std::size_t slice) {
    const auto slices = slice_experts("m.experts.gate_up_proj", ExpertPart::gate_up,
                                      {2, 5, 7, transposed, interleaved});
    const MatrixSlice& s = slices[slice];
    return std::vector<std::int64_t>{s.first, s.row_step, s.col_step, s.line, s.line_step};
  };
  using Five = std::vector<std::int64_t>;
  EXPECT_EQ(place(false, false, 3), (Five{70 + 35, 7, 1, 15, 1}));  // up of expert 1
  EXPECT_EQ(place(false, true, 3), (Five{70 + 7, 14, 1, 11, 2}));
  EXPECT_EQ(place(true, false, 3), (Five{70 + 5, 1, 10, 15, 1}));
  EXPECT_EQ(place(true, true, 3), (Five{70 + 1, 2, 10, 11, 2}));
  const auto slices =
      slice_experts("m.experts.gate_up_proj", ExpertPart::gate_up, {2, 5, 7, false, false});
  EXPECT_EQ(slices[2].module, "m.experts.1.gate_proj");
  EXPECT_EQ(slices[3].module, "m.experts.1.up_proj");
}

}  // namespace
}  // namespace microscale
