#include "checkpoint/classifier.hpp"

#include <gtest/gtest.h>

#include "model_builder.hpp"

namespace microscale {
namespace {

TensorEntry entry(std::string name, std::vector<std::int64_t> shape = {64, 64},
                  StoredType type = StoredType::bf16) {
  TensorEntry tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.type = type;
  return tensor;
}

class Judged : public ::testing::Test {
 protected:
  // Of a model of these tensors.
  void model(std::vector<TensorEntry> tensors, ModelFacts facts = {}) {
    tensors_ = std::move(tensors);
    std::vector<const TensorEntry*> entries;
    for (const TensorEntry& tensor : tensors_) entries.push_back(&tensor);
    classifier = Classifier(entries, std::move(facts));
  }

  void expect(const TensorEntry& tensor, TensorKind kind, Kept kept, const std::string& reason,
              bool linear) const {
    const Verdict verdict = classifier.judge(tensor);
    EXPECT_EQ(static_cast<int>(verdict.kind), static_cast<int>(kind)) << tensor.name;
    EXPECT_EQ(name_of(verdict.kept), name_of(kept)) << tensor.name;
    EXPECT_EQ(verdict.reason, reason) << tensor.name;
    EXPECT_EQ(verdict.linear, linear) << tensor.name;
  }

  Classifier classifier;

 private:
  std::vector<TensorEntry> tensors_;
};

TEST_F(Judged, dense_tensors_by_name_type_and_shape) {
  model({entry("model.layers.0.a.weight")});
  expect(entry("model.layers.0.a.weight"), TensorKind::linear, Kept::no, "linear weight", true);
  expect(entry("lm_head.weight"), TensorKind::linear, Kept::output_head, "output head", true);
  expect(entry("model.embed_tokens.weight"), TensorKind::other, Kept::embedding, "embedding",
         false);
  expect(entry("model.layers.0.a.bias", {64}), TensorKind::other, Kept::vector,
         "a vector, no matrix", false);
  expect(entry("model.layers.0.a.scale", {}), TensorKind::other, Kept::scalar, "a scalar", false);
  expect(entry("model.layers.0.a.weight", {64, 64}, StoredType::f64), TensorKind::linear,
         Kept::element_type, "F64 elements are not quantized", true);
  expect(entry("model.layers.0.a.weight", {0, 64}), TensorKind::linear, Kept::empty, "no elements",
         true);
  expect(entry("model.layers.0.conv.weight", {64, 64, 3}), TensorKind::other, Kept::convolution,
         "3-D weight, no linear layer", false);
}

TEST_F(Judged, experts_of_known_and_of_odd_layouts) {
  model({entry("model.layers.0.a.weight")});
  expect(entry("model.layers.0.experts.gate_up_proj", {2, 64, 32}), TensorKind::experts, Kept::no,
         "fused experts", false);
  expect(entry("model.layers.0.experts.down_proj_bias", {2, 64}), TensorKind::experts, Kept::no,
         "bias of fused experts", false);
  for (const TensorEntry& odd : {entry("model.layers.0.moe.input_linear.weight", {2, 64, 32}),
                                 entry("transformer.blocks.0.ffn.experts.mlp.w1", {128, 32}),
                                 entry("model.layers.0.experts.w13_weight", {2, 64, 32})}) {
    expect(odd, TensorKind::experts, Kept::odd_experts, "experts of an unknown layout", false);
  }
}

TEST_F(Judged, codes_and_scales_with_the_tool) {
  model({entry("a.weight", {64, 64}, StoredType::f8_e4m3),
         entry("a.weight_scale_inv", {1, 1}, StoredType::f32)});
  const Verdict verdict = classifier.judge(entry("a.weight", {64, 64}, StoredType::f8_e4m3));
  EXPECT_EQ(verdict.tool, QuantizingTool::fp8);
  EXPECT_EQ(verdict.module, "a");
  expect(entry("a.weight_scale_inv", {1, 1}, StoredType::f32), TensorKind::quantized,
         Kept::element_type, "quantized already: " + std::string(to_string(QuantizingTool::fp8)),
         false);
  expect(entry("a.input_scale", {1}), TensorKind::leftover, Kept::no_weight,
         "left over from a calibration", false);
  expect(entry("a.k_scale", {}), TensorKind::kv_scale, Kept::no_weight,
         "scale of the key-value cache", false);
}

TEST_F(Judged, order_of_experts_by_marks) {
  model({entry("l.experts.gate_up_proj", {2, 32, 64})});
  EXPECT_EQ(classifier.expert_order(), std::nullopt);
  model({entry("l.experts.gate_up_proj_bias", {2, 64}), entry("l.router.bias", {2})});
  EXPECT_EQ(classifier.expert_order(), ExpertOrder::interleaved);
  ModelFacts facts;
  facts.model_type = "gpt_oss_puzzle";
  model({}, facts);
  EXPECT_EQ(classifier.expert_order(), ExpertOrder::interleaved);
  facts = {};
  facts.architectures = {"GptOssForCausalLM"};
  model({}, facts);
  EXPECT_EQ(classifier.expert_order(), ExpertOrder::interleaved);
  facts = {};
  facts.model_type = "llama4_text";
  model({}, facts);
  EXPECT_EQ(classifier.expert_order(), ExpertOrder::halves);
}

TEST_F(Judged, models_that_are_open) {
  testing::TestModel written;
  written.shards[0]["model.layers.7.x.weight"] =
      testing::random_tensor(StoredType::bf16, {4, 16}, 1);
  written.config = R"({"num_hidden_layers": 7})";
  testing::TemporaryFolder folder;
  written.write(folder.path());
  const ModelFolder model = take(open_model_folder(folder.path()));
  const Classifier read = take(classify_model(model));
  EXPECT_EQ(read.judge(*model.tensors[0].entry).kept, Kept::prediction_layer);
  EXPECT_EQ(dense_type(StoredType::bf16), DType::bf16);
  EXPECT_EQ(dense_type(StoredType::i8), std::nullopt);
}

TEST(Classifier, a_row_for_each_expert_is_a_router_whatever_its_name) {
  const std::string layer = "model.layers.0.mlp.";
  std::vector<TensorEntry> entries;
  for (int expert = 0; expert < 8; ++expert) {
    entries.push_back({layer + "experts." + std::to_string(expert) + ".up_proj.weight",
                       StoredType::bf16,
                       {64, 128},
                       0,
                       0});
  }
  const auto judged = [&](const std::string& name, std::vector<std::int64_t> shape) {
    std::vector<const TensorEntry*> all;
    for (const TensorEntry& entry : entries) all.push_back(&entry);
    return Classifier(all, {}).judge({name, StoredType::bf16, std::move(shape), 0, 0}).kept;
  };
  EXPECT_EQ(judged(layer + "chooser.weight", {8, 128}), Kept::router);
  EXPECT_EQ(judged(layer + "chooser.linear.weight", {8, 128}), Kept::router);
  EXPECT_EQ(judged(layer + "latent.weight", {64, 128}), Kept::no);
  EXPECT_NE(judged(layer + "shared_expert.up_proj.weight", {8, 128}), Kept::router);
  EXPECT_NE(judged("model.layers.0.self_attn.k_proj.weight", {8, 128}), Kept::router);
  // Stacked experts, in the layer itself.
  entries = {{"model.layers.0.experts.gate_up_proj", StoredType::bf16, {8, 256, 128}, 0, 0}};
  EXPECT_EQ(judged("model.layers.0.chooser.weight", {8, 128}), Kept::router);
  EXPECT_NE(judged("model.layers.0.self_attn.k_proj.weight", {8, 128}), Kept::router);
}

}  // namespace
}  // namespace microscale
