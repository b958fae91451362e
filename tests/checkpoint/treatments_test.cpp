#include "checkpoint/treatments.hpp"

#include <gtest/gtest.h>

#include "model_builder.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::random_tensor;
using testing::TemporaryFolder;
using testing::TestModel;

// A model of these names and shapes, decided on with these patterns.
class Treatments : public ::testing::Test {
 protected:
  void add(const std::string& name, std::vector<std::int64_t> shape, std::size_t shard = 0,
           StoredType type = StoredType::bf16) {
    if (shard >= model.shards.size()) model.shards.resize(shard + 1);
    model.shards[shard][name] = random_tensor(type, std::move(shape), 1);
  }

  Result<std::vector<TensorTreatment>> decide(std::vector<std::string> include = {},
                                              std::vector<std::string> ignore = {},
                                              Format format = Format::nvfp4) {
    model.write(folder.path());
    opened = take(open_quantized_folder(folder.path()));
    view = dense_view_of(opened);
    classifier = take(classify_model(opened.model, view));
    return decide_treatments(opened.model, view, classifier,
                             take(Recipe::create(*weight_format_of(format), include, ignore)),
                             experts);
  }

  static const TensorTreatment& find(const std::vector<TensorTreatment>& treatments,
                                     const std::string& name) {
    for (const TensorTreatment& treatment : treatments) {
      if (treatment.entry->name == name) return treatment;
    }
    throw std::runtime_error("no tensor " + name);
  }

  TestModel model;
  std::optional<ExpertOrder> experts = ExpertOrder::halves;
  Classifier classifier;
  TemporaryFolder folder;
  QuantizedFolder opened;
  DenseView view;
};

TEST_F(Treatments, group_is_named_across_shards_and_only_for_nvfp4) {
  add("a.q_proj.weight", {16, 32}, 0);
  add("a.k_proj.weight", {16, 32}, 1);
  add("a.o_proj.weight", {16, 32}, 1);
  add("b.q_proj.weight", {16, 32}, 1);
  const auto treatments = take(decide());
  EXPECT_EQ(find(treatments, "a.q_proj.weight").group, "a.{q_proj,k_proj,v_proj}");
  EXPECT_EQ(find(treatments, "a.k_proj.weight").group, "a.{q_proj,k_proj,v_proj}");
  EXPECT_EQ(find(treatments, "a.o_proj.weight").group, "");
  EXPECT_EQ(find(treatments, "b.q_proj.weight").group, "") << "alone in its group";
  EXPECT_EQ(find(take(decide({}, {}, Format::mxfp4)), "a.q_proj.weight").group, "");
}

TEST_F(Treatments, group_with_a_member_that_does_not_fit_is_copied_whole) {
  add("a.gate_proj.weight", {16, 32});
  add("a.up_proj.weight", {16, 40});
  const auto treatments = take(decide());
  const Decision& gate = find(treatments, "a.gate_proj.weight").decision;
  EXPECT_EQ(gate.treatment, Treatment::copy);
  EXPECT_EQ(gate.reason, "belongs to a.up_proj: K = 40 is no multiple of 16");
}

TEST_F(Treatments, patterns_that_split_a_group_are_refused) {
  add("a.q_proj.weight", {16, 32});
  add("a.k_proj.weight", {16, 32});
  add("a.v_proj.weight", {16, 32});
  const auto split = decide({}, {"*.k_proj"});
  EXPECT_TRUE(fails_with(split, "fused group 'a.{q_proj,k_proj,v_proj}'"));
  EXPECT_TRUE(fails_with(split, "'a.k_proj' (ignored by '*.k_proj')"));
  EXPECT_TRUE(fails_with(split, "'a.q_proj', 'a.v_proj' would be quantized"));
  EXPECT_EQ(split.failure().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(fails_with(decide({"a.q_proj"}), "'a.k_proj' (not included)"));
  for (const TensorTreatment& treatment : take(decide({}, {"a.*"}))) {
    EXPECT_EQ(treatment.decision.treatment, Treatment::copy);
  }
}

TEST_F(Treatments, fused_experts_are_split_with_their_biases) {
  add("m.experts.gate_up_proj", {2, 64, 32});
  add("m.experts.down_proj", {2, 32, 32}, 1);
  add("m.experts.gate_up_proj_bias", {2, 64});
  add("m.experts.down_proj_bias", {2, 32}, 1);
  model.config = "{}";
  const auto treatments = take(decide());
  for (const TensorTreatment& treatment : treatments) {
    EXPECT_EQ(treatment.decision.treatment, Treatment::split) << treatment.entry->name;
    EXPECT_EQ(treatment.experts, (ExpertLayout{2, 32, 32, false, false}));
  }
}

TEST_F(Treatments, fused_experts_that_cannot_be_split_are_copied_and_named_for_loaders) {
  add("m.experts.gate_up_proj", {2, 48, 32});
  add("m.experts.down_proj", {2, 32, 24});
  add("m.experts.down_proj_bias", {2, 32});
  model.config = "{}";
  const auto treatments = take(decide());
  for (const TensorTreatment& treatment : treatments) {
    EXPECT_EQ(treatment.decision.treatment, Treatment::copy);
    EXPECT_EQ(treatment.decision.reason, "K = 24 is no multiple of 16");
  }
}

TEST_F(Treatments, patterns_that_split_fused_experts_are_refused) {
  add("m.experts.gate_up_proj", {2, 64, 32});
  add("m.experts.down_proj", {2, 32, 32});
  model.config = "{}";
  EXPECT_TRUE(fails_with(decide({}, {"*.down_proj"}), "fused experts 'm.experts'"));
}

TEST_F(Treatments, bias_of_another_shape_stops_the_split) {
  add("m.experts.gate_up_proj", {2, 64, 32});
  add("m.experts.down_proj", {2, 32, 32});
  add("m.experts.down_proj_bias", {2, 31});
  model.config = "{}";
  EXPECT_EQ(find(take(decide()), "m.experts.down_proj").decision.reason,
            "the shape of its bias does not fit");
}

TEST_F(Treatments, weights_that_are_quantized_already_are_refused) {
  add("a.q_proj.weight", {16, 32});
  add("a.q_proj.SCB", {16});
  EXPECT_TRUE(fails_with(decide(), "are quantized already: 'a.q_proj.SCB'"));
  model.shards[0].erase("a.q_proj.SCB");
  add("a.q_proj.weight_scale", {16, 2});
  EXPECT_TRUE(
      fails_with(decide(), "'a.q_proj.weight': codes of type BF16 with scales of type BF16"));
  model.shards[0].erase("a.q_proj.weight_scale");
  model.config = R"({"quantization_config": {"quant_method": "fp8"}})";
  EXPECT_TRUE(fails_with(decide(), "is described as quantized ('fp8' in config.json), but no "));
}

TEST_F(Treatments, pattern_that_matches_nothing_is_refused) {
  add("a.q_proj.weight", {16, 32});
  const auto ignored = decide({}, {"*.q_proj", "*.o_porj"});
  EXPECT_TRUE(fails_with(ignored, "matches --ignore '*.o_porj'; see the names with --dry-run"));
  EXPECT_EQ(ignored.failure().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(testing::succeeds(decide({}, {"lm_head"}))) << "ignored by default, here or not";
  EXPECT_TRUE(fails_with(decide({"a.q_poj"}), "matches --include 'a.q_poj'"));
}

TEST_F(Treatments, experts_of_one_layer_are_kept_whole) {
  for (const std::string expert : {"0.", "1.", "2."}) {
    add("model.layers.0.mlp.experts." + expert + "gate_proj.weight", {16, 32});
    add("model.layers.0.mlp.experts." + expert + "up_proj.weight", {16, 32});
    add("model.layers.0.mlp.experts." + expert + "down_proj.weight",
        {32, expert == "1." ? 24 : 16});
  }
  add("model.layers.1.mlp.experts.0.down_proj.weight", {32, 16});
  const auto treatments = take(decide());
  const Decision& far = find(treatments, "model.layers.0.mlp.experts.2.up_proj.weight").decision;
  EXPECT_EQ(far.kept, Kept::group);
  EXPECT_EQ(far.reason,
            "belongs to model.layers.0.mlp.experts.1.down_proj: K = 24 is no multiple of 16");
  EXPECT_EQ(find(treatments, "model.layers.1.mlp.experts.0.down_proj.weight").decision.treatment,
            Treatment::quantize);
  model.shards[0].erase("model.layers.0.mlp.experts.1.down_proj.weight");
  EXPECT_TRUE(
      fails_with(decide({}, {"*experts.2.down_proj"}), "experts of 'model.layers.0.mlp.experts'"));
}

TEST_F(Treatments, order_of_fused_experts_is_never_guessed) {
  add("m.experts.gate_up_proj", {2, 64, 32});
  add("m.experts.down_proj", {2, 32, 32});
  experts = std::nullopt;
  model.config = R"({"model_type": "my_own"})";
  const auto unknown = decide();
  EXPECT_TRUE(fails_with(unknown, "say --experts interleaved"));
  EXPECT_EQ(unknown.failure().code, ErrorCode::invalid_argument);
  experts = ExpertOrder::interleaved;
  EXPECT_TRUE(find(take(decide()), "m.experts.down_proj").experts->interleaved);
  experts = std::nullopt;
  model.config = R"({"model_type": "qwen3_vl_moe"})";
  EXPECT_FALSE(find(take(decide()), "m.experts.down_proj").experts->interleaved);
  experts = ExpertOrder::interleaved;
  EXPECT_TRUE(fails_with(decide(), "--experts interleaved contradicts"));
}

TEST_F(Treatments, codes_of_another_tool_are_refused_unless_named) {
  add("model.layers.0.a.weight", {16, 32});
  add("model.layers.0.b.weight", {16, 32}, 0, StoredType::i8);
  const auto refused = decide();
  EXPECT_TRUE(fails_with(refused, "'model.layers.0.b.weight' (I8 [16, 32]) shows INT8 weights"));
  EXPECT_TRUE(fails_with(refused, "--ignore 'model.layers.0.b'"));
  EXPECT_EQ(refused.failure().code, ErrorCode::bad_input);
  EXPECT_TRUE(fails_with(decide({}, {"*.b"}), "shows INT8 weights"));
  EXPECT_EQ(find(take(decide({}, {"model.layers.0.b"})), "model.layers.0.b.weight").decision.kept,
            Kept::ignored);
}

// An engine fuses them all the same.
TEST_F(Treatments, a_partner_of_another_rank_takes_the_others_with_it) {
  add("model.layers.0.mlp.gate_proj.weight", {64, 64});
  add("model.layers.0.mlp.up_proj.weight", {1, 64, 64});
  add("model.layers.0.mlp.down_proj.weight", {64, 64});
  const auto treatments = decide();
  ASSERT_TRUE(testing::succeeds(treatments));
  EXPECT_EQ(find(treatments.value(), "model.layers.0.mlp.gate_proj.weight").decision.treatment,
            Treatment::copy);
  EXPECT_EQ(find(treatments.value(), "model.layers.0.mlp.down_proj.weight").decision.treatment,
            Treatment::quantize);
}

TEST_F(Treatments, a_description_of_quantized_weights_over_dense_ones_is_called_that) {
  add("model.layers.0.mlp.down_proj.weight", {64, 64});
  model.config =
      R"({"model_type": "llama", "quantization_config": {"quant_method": "bitsandbytes"}})";
  EXPECT_TRUE(fails_with(decide(),
                         "is described as quantized ('bitsandbytes' in config.json), but "
                         "no tensor of it is"));
  model.config = R"({"model_type": "llama", "quantization_config": {}})";
  EXPECT_TRUE(testing::succeeds(decide()));
}

}  // namespace
}  // namespace microscale
