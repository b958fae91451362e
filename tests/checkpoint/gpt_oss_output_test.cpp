// Fine-tunes of gpt-oss in the published layout: experts stand for what the library makes of their
// columns, everything else stays.
#include "checkpoint/gpt_oss_output.hpp"

#include <gtest/gtest.h>

#include "checkpoint/convert.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

using namespace testing;

constexpr std::int64_t experts = 3, hidden = 64, inner = 96;
const std::string layer = "model.layers.0.", moe = layer + "mlp.experts.";

TestModel gpt_oss() {
  TestModel model;
  model.shards.resize(1);
  TestTensors& tensors = model.shards[0];
  tensors["model.embed_tokens.weight"] = random_tensor(StoredType::bf16, {50, hidden}, 1);
  tensors["lm_head.weight"] = random_tensor(StoredType::bf16, {50, hidden}, 2);
  for (const std::string part : {"q", "k", "v", "o"}) {
    tensors[layer + "self_attn." + part + "_proj.weight"] =
        random_tensor(StoredType::bf16, {64, hidden}, 3);
  }
  tensors[layer + "mlp.router.weight"] = random_tensor(StoredType::bf16, {experts, hidden}, 4);
  tensors[layer + "mlp.router.bias"] = random_tensor(StoredType::bf16, {experts}, 5);
  tensors[moe + "gate_up_proj"] = random_tensor(StoredType::bf16, {experts, hidden, 2 * inner}, 6);
  tensors[moe + "gate_up_proj_bias"] = random_tensor(StoredType::bf16, {experts, 2 * inner}, 7);
  tensors[moe + "down_proj"] = random_tensor(StoredType::bf16, {experts, inner, hidden}, 8);
  tensors[moe + "down_proj_bias"] = random_tensor(StoredType::bf16, {experts, hidden}, 9);
  tensors["model.norm.weight"] = random_tensor(StoredType::bf16, {hidden}, 10);
  model.config = R"({"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
                     "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
                     "num_local_experts": 3, "vocab_size": 50})";
  return model;
}

class GptOssOutput : public ::testing::Test {
 protected:
  QuantizeModelOptions options() const {
    QuantizeModelOptions options = options_for(folder_, Format::mxfp4);
    options.container = Container::gpt_oss;
    return options;
  }
  const TemporaryFolder folder_;
};

TEST_F(GptOssOutput, blocks_hold_what_the_library_makes_of_each_experts_columns) {
  const TestModel model = gpt_oss();
  model.write(folder_ / "in");
  convert_model(options());
  const QuantizedFolder out = take(open_quantized_folder(folder_ / "out"));
  EXPECT_TRUE(out.unusable.empty());
  EXPECT_EQ(out.weights.size(), 2u);
  for (const std::string name : {"gate_up_proj", "down_proj"}) {
    const TestTensor& dense = model.shards[0].at(moe + name);
    const std::vector<float> values = values_of(dense);
    const std::int64_t inputs = dense.shape[1], outputs = dense.shape[2];
    std::vector<std::uint8_t> codes, scales;
    for (std::int64_t e = 0; e < experts; ++e) {
      std::vector<float> rows;  // [outputs, inputs]
      for (std::int64_t n = 0; n < outputs; ++n) {
        for (std::int64_t k = 0; k < inputs; ++k) {
          rows.push_back(values[static_cast<std::size_t>((e * inputs + k) * outputs + n)]);
        }
      }
      const BlockTensor tensor = quantize(
          {.input = {rows.data(), DType::f32, outputs, inputs, inputs}, .format = Format::mxfp4});
      codes.insert(codes.end(), tensor.codes().begin(), tensor.codes().end());
      scales.insert(scales.end(), tensor.scales().begin(), tensor.scales().end());
    }
    const auto stored = [&](const std::string& ending) {
      const ModelTensor* tensor = out.model.find(moe + name + ending);
      std::vector<std::uint8_t> bytes(tensor->entry->bytes());
      take(out.model.shards[0].file.read_at(tensor->entry->begin, bytes));
      return bytes;
    };
    EXPECT_EQ(stored("_blocks"), codes) << name;
    EXPECT_EQ(stored("_scales"), scales) << name;
    EXPECT_EQ(out.model.find(moe + name + "_blocks")->entry->shape,
              (std::vector<std::int64_t>{experts, outputs, inputs / 32, 16}));
  }
}

TEST_F(GptOssOutput, everything_else_stays) {
  const TestModel model = gpt_oss();
  model.write(folder_ / "in");
  const Conversion conversion = convert_model(options());
  const QuantizedFolder out = take(open_quantized_folder(folder_ / "out"));
  for (const auto& [name, tensor] : model.shards[0]) {
    if (tensor.shape.size() == 3) continue;
    const ModelTensor* copy = out.model.find(name);
    ASSERT_NE(copy, nullptr) << name;
    EXPECT_EQ(copy->entry->shape, tensor.shape);
    std::string bytes(copy->entry->bytes(), '\0');
    take(out.model.shards[0].file.read_at(
        copy->entry->begin, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}));
    EXPECT_EQ(bytes, tensor.bytes) << name;
  }
  EXPECT_NE(out.model.config_text->find("\"mxfp4\""), std::string::npos);
  VerifyModelOptions verify;
  verify.input = folder_ / "out";
  EXPECT_EQ(verify_model(verify), std::vector<std::string>());
}

TEST_F(GptOssOutput, what_was_written_comes_back_through_dequantize_and_quantize) {
  gpt_oss().write(folder_ / "in");
  convert_model(options());
  DequantizeModelOptions dense;
  dense.input = folder_ / "out";
  dense.output = folder_ / "dense";
  dequantize_model(dense);
  QuantizeModelOptions again = options();
  again.input = dense.output;
  again.output = folder_ / "again";
  again.numerics.scale_rule = ScaleRule::floor;  // keeps the scale of values that fit
  convert_model(again);
  const QuantizedFolder once = take(open_quantized_folder(folder_ / "out"));
  const QuantizedFolder twice = take(open_quantized_folder(folder_ / "again"));
  EXPECT_EQ(twice.weights.size(), once.weights.size());
  for (const auto& weight : once.weights) {
    const LogicalTensor* other = twice.find(weight->name());
    ASSERT_NE(other, nullptr) << weight->name();
    EXPECT_EQ(other->weight->facts().shape, weight->facts().shape);
  }
}

TEST_F(GptOssOutput, other_models_and_other_orders_are_refused) {
  TestModel model = gpt_oss();
  model.config.replace(model.config.find("gpt_oss"), 7, "mixtral");
  model.write(folder_ / "in");
  expect_error(ErrorCode::unsupported, "is 'mixtral'", [&] { convert_model(options()); });
  std::filesystem::remove_all(folder_ / "in");
  model = gpt_oss();
  TestTensors& tensors = model.shards[0];
  tensors[moe + "gate_up_proj"] = random_tensor(StoredType::bf16, {experts, 2 * inner, hidden}, 6);
  tensors[moe + "down_proj"] = random_tensor(StoredType::bf16, {experts, hidden, inner}, 8);
  model.write(folder_ / "in");
  expect_error(ErrorCode::unsupported, "does not lie as gpt-oss has it",
               [&] { convert_model(options()); });
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(GptOssOutput, an_interrupted_run_is_finished_by_the_next) {
  TestModel model = gpt_oss();
  model.shards.resize(2);
  model.shards[1][moe + "down_proj"] = model.shards[0][moe + "down_proj"];
  model.shards[0].erase(moe + "down_proj");
  model.write(folder_ / "in");
  convert_model(options());
  const auto undisturbed = read_folder(folder_ / "out");
  std::filesystem::remove_all(folder_ / "out");
  int calls = 0;
  const auto stop = [&](std::int64_t, std::int64_t, std::string_view) { return ++calls < 9; };
  EXPECT_THROW(convert_model(options(), stop), Error);
  QuantizeModelOptions resumed = options();
  resumed.resume = std::filesystem::exists(folder_ / "out");
  convert_model(resumed);
  EXPECT_EQ(read_folder(folder_ / "out"), undisturbed);
}

TEST(StackedSlices, are_the_transposed_matrices_of_a_stack) {
  const auto slices = stacked_slices({"a.down_proj", StoredType::bf16, {2, 3, 5}, 0, 60});
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1].module, "a.down_proj");
  EXPECT_EQ(slices[1].rows, 5);
  EXPECT_EQ(slices[1].cols, 3);
  EXPECT_EQ(slices[1].element(4, 2), 15 + 2 * 5 + 4);
}

}  // namespace
}  // namespace microscale
