#include "checkpoint/merged_weight.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "adapters.hpp"
#include "checkpoint/containers/coded_models.hpp"

namespace microscale {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;
using testing::TestAdapter;
using testing::TestTensor;

constexpr const char* layer = "model.layers.0.";

std::vector<double> numbers(const TestTensor& tensor) {
  std::vector<std::uint8_t> bytes(tensor.bytes.begin(), tensor.bytes.end());
  std::vector<float> values(static_cast<std::size_t>(testing::element_count(tensor.shape)));
  decode_dense(tensor.type, bytes, values);
  return {values.begin(), values.end()};
}

// W + factor * B A by the definition, in FP64.
std::vector<double> merged(const TestTensor& w, const TestTensor& a, const TestTensor& b,
                           double factor, bool transposed = false) {
  std::vector<double> values = numbers(w);
  const auto left = numbers(b), right = numbers(a);
  const auto outputs = static_cast<std::size_t>(b.shape[0]);
  const auto inputs = static_cast<std::size_t>(a.shape[1]);
  const auto rank = static_cast<std::size_t>(a.shape[0]);
  for (std::size_t o = 0; o < outputs; ++o) {
    for (std::size_t i = 0; i < inputs; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < rank; ++k) sum += left[o * rank + k] * right[k * inputs + i];
      values[transposed ? i * outputs + o : o * inputs + i] += factor * sum;
    }
  }
  return values;
}

struct Opened {
  QuantizedFolder folder;
  DenseView view;
  std::vector<LoraAdapter> adapters;
  std::vector<std::string> sentences;
};

std::unique_ptr<Opened> open(const std::filesystem::path& model, const std::vector<LoraUse>& uses) {
  auto opened = std::make_unique<Opened>();
  opened->folder = take(open_quantized_folder(model));
  opened->view = dense_view_of(opened->folder);
  for (const LoraUse& use : uses) opened->adapters.push_back(take(open_lora_adapter(use)));
  opened->sentences = take(merge_adapters(opened->adapters, opened->folder.model, opened->view));
  return opened;
}

void expect_near(const StoredWeight& weight, const std::vector<double>& wanted) {
  const std::vector<float> found = testing::decoded(weight);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    // Rounded once to FP32; the order of the sum in FP64 shows far below that.
    const double step = std::abs(wanted[i]) * 0x1p-23 + 1e-30;
    ASSERT_NEAR(static_cast<double>(found[i]), wanted[i], step) << i;
  }
  // In parts that begin and end anywhere.
  const auto count = static_cast<std::int64_t>(found.size());
  for (const auto& [first, length] :
       {std::pair<std::int64_t, std::int64_t>(1, 7), {count / 3, count / 2}, {count - 5, 5}}) {
    const std::vector<float> part(found.begin() + first, found.begin() + first + length);
    EXPECT_EQ(testing::decoded(weight, first, length), part);
  }
}

TEST(MergedWeight, is_the_sum_in_double_rounded_once) {
  for (const StoredType type : {StoredType::f32, StoredType::bf16, StoredType::f16}) {
    TemporaryFolder place;
    testing::TestModel model;
    auto& tensors = model.shards[0];
    const std::string q = std::string(layer) + "self_attn.q_proj";
    tensors[q + ".weight"] = testing::random_tensor(type, {300, 1300}, 1);
    tensors["model.norm.weight"] = testing::random_tensor(type, {1300}, 2);
    model.write(place / "model");
    TestAdapter first, second;
    first.add(q, 300, 1300, 3).write(place / "first");
    second.add(q, 300, 1300, 5, 4, StoredType::bf16).write(place / "second");
    const auto opened = open(place / "model", {{place / "first", 0.5}, {place / "second", -2}});
    const DenseTensor* tensor = opened->view.find(q + ".weight");
    ASSERT_NE(tensor->weight, nullptr);
    EXPECT_FALSE(opened->view.computed());
    EXPECT_EQ(tensor->entry.type, StoredType::f32);
    EXPECT_EQ(copied_type(*tensor), type);
    EXPECT_EQ(opened->view.find("model.norm.weight")->weight, nullptr);
    ASSERT_EQ(opened->sentences.size(), 2u);
    const std::string a = "base_model.model." + q + ".lora_A.weight";
    const std::string b = "base_model.model." + q + ".lora_B.weight";
    std::vector<double> wanted =
        merged(tensors[q + ".weight"], first.tensors[a], first.tensors[b], 0.5 * 8 / 4);
    const std::vector<double> base = numbers(tensors[q + ".weight"]);
    const std::vector<double> other =
        merged(tensors[q + ".weight"], second.tensors[a], second.tensors[b], -2.0 * 8 / 4);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += other[i] - base[i];
    expect_near(*tensor->weight, wanted);
  }
}

TEST(MergedWeight, takes_ranks_of_one_and_of_thousands_and_transposed_weights) {
  for (const std::int64_t rank : {1, 3000}) {
    for (const bool transposed : {false, true}) {
      TemporaryFolder place;
      testing::TestModel model;
      const std::string name = std::string(layer) + "mlp.up_proj";
      const std::vector<std::int64_t> shape =
          transposed ? std::vector<std::int64_t>{96, 40} : std::vector<std::int64_t>{40, 96};
      model.shards[0][name + ".weight"] = testing::random_tensor(StoredType::f32, shape, 1);
      model.write(place / "model");
      TestAdapter adapter;
      adapter.add(name, 40, 96, 3, rank);
      adapter.config = R"({"peft_type": "LORA", "r": )" + std::to_string(rank) +
                       R"(, "lora_alpha": 16, "fan_in_fan_out": )" +
                       (transposed ? "true}" : "false}");
      adapter.write(place / "adapter");
      const auto opened = open(place / "model", {{place / "adapter"}});
      const std::string prefix = "base_model.model." + name;
      expect_near(
          *opened->view.find(name + ".weight")->weight,
          merged(model.shards[0][name + ".weight"], adapter.tensors[prefix + ".lora_A.weight"],
                 adapter.tensors[prefix + ".lora_B.weight"], 16.0 / static_cast<double>(rank),
                 transposed));
    }
  }
}

TEST(MergedWeight, goes_onto_weights_that_are_quantized) {
  TemporaryFolder place;
  const testing::CodedModel coded = testing::fp8_llama();
  coded.model.write(place / "model");
  const std::string q = std::string(layer) + "self_attn.q_proj";
  TestAdapter adapter;
  adapter.add(q, 192, 320, 3).write(place / "adapter");
  const auto opened = open(place / "model", {{place / "adapter"}});
  const std::string prefix = "base_model.model." + q;
  const TestTensor base =
      testing::tensor_of(StoredType::f32, {192, 320}, coded.values.at(q + ".weight"));
  expect_near(*opened->view.find(q + ".weight")->weight,
              merged(base, adapter.tensors[prefix + ".lora_A.weight"],
                     adapter.tensors[prefix + ".lora_B.weight"], 2));
}

TEST(MergedWeight, a_plan_without_the_adapters_that_were_asked_for_is_no_plan) {
  QuantizeModelOptions options;
  EXPECT_TRUE(testing::succeeds(check_added({}, options)));
  options.lora.push_back({"adapter"});
  EXPECT_TRUE(testing::fails_with(check_added({}, options), "container compressed-tensors"));
}

TEST(MergedWeight, what_does_not_fit_is_named_with_its_shapes) {
  TemporaryFolder place;
  testing::TestModel model;
  const std::string q = std::string(layer) + "self_attn.q_proj";
  model.shards[0][q + ".weight"] = testing::random_tensor(StoredType::bf16, {64, 32}, 1);
  model.write(place / "model");
  TestAdapter().add(q, 64, 33, 3).write(place / "wide");
  expect_error(ErrorCode::bad_input,
               "change a weight [64, 33], but 'model.layers.0.self_attn.q_proj"
               ".weight' is [64, 32]",
               [&] { open(place / "model", {{place / "wide"}}); });
  TestAdapter().add("model.layers.7.self_attn.q_proj", 64, 32, 3).write(place / "other");
  expect_error(ErrorCode::bad_input,
               "is for 'model.layers.7.self_attn.q_proj.weight', and the model "
               "has no such weight",
               [&] { open(place / "model", {{place / "other"}}); });
}

// quantize of model and adapter, against quantize of the weights merged here in FP32.
TEST(MergedWeight, quantize_gives_the_bytes_of_the_merged_model) {
  TemporaryFolder place;
  testing::TestModel model;
  auto& tensors = model.shards[0];
  TestAdapter adapter;
  unsigned seed = 1;
  for (const auto& [module, shape] : testing::llama_layers()) {
    tensors[module + ".weight"] =
        testing::random_tensor(StoredType::bf16, {shape.first, shape.second}, seed++);
    adapter.add(module, shape.first, shape.second, seed++);
  }
  tensors["lm_head.weight"] = testing::random_tensor(StoredType::bf16, {64, 320}, 52);
  adapter.add("lm_head", 64, 320, 70);
  model.config = R"({"model_type": "llama", "hidden_size": 320, "num_hidden_layers": 1})";
  model.write(place / "model");
  adapter.write(place / "adapter");

  const auto opened = open(place / "model", {{place / "adapter"}});
  testing::TestModel dense = model;
  for (auto& [name, tensor] : dense.shards[0]) {
    const std::vector<float> values = testing::decoded(*opened->view.find(name)->weight);
    const bool kept = name == "lm_head.weight";
    tensor = testing::tensor_of(kept ? StoredType::bf16 : StoredType::f32, tensor.shape, values);
  }
  dense.write(place / "dense");

  QuantizeModelOptions options;
  options.input = place / "dense";
  options.output = place / "wanted";
  quantize_model(options);
  options.input = place / "model";
  options.output = place / "found";
  options.lora.push_back({place / "adapter"});
  const ConversionPlan plan = quantize_model(options);
  EXPECT_EQ(testing::read_tensors(place / "found"), testing::read_tensors(place / "wanted"));
  ASSERT_FALSE(plan.notices.empty());
  EXPECT_NE(plan.notices.front().find("8 weights have the adapter"), std::string::npos);
  VerifyModelOptions verify;
  verify.input = place / "found";
  EXPECT_EQ(verify_model(verify), std::vector<std::string>());
  // A run goes on with the same adapters, and another weight is another run.
  options.resume = true;
  options.lora.push_back({place / "adapter", -0.5});
  options.output = place / "two";
  quantize_model(options);
  EXPECT_NE(testing::read_tensors(place / "two"), testing::read_tensors(place / "wanted"));
  options.output = place / "found";
  options.lora.pop_back();
  quantize_model(options);
  options.lora.front().weight = 0.25;
  expect_error(ErrorCode::invalid_argument, "lora", [&] { quantize_model(options); });
}

}  // namespace
}  // namespace microscale
