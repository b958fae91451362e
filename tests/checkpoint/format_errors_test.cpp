#include "checkpoint/format_errors.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "microscale/quantize.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::attention;
using testing::expect_error;
using testing::options_for;
using testing::TemporaryFolder;
using testing::tensor_of;
using testing::TestModel;
using testing::values_of;

const std::vector<WeightFormat> all{WeightFormat::nvfp4, WeightFormat::mxfp4, WeightFormat::mxfp8,
                                    WeightFormat::fp8};

// Wide enough for two tiles of a layer.
TestModel two_tiles() {
  TestModel model = testing::sample_model();
  model.shards[0]["model.layers.1.self_attn.o_proj.weight"] =
      testing::random_tensor(StoredType::bf16, {1100, 1024}, 20);
  return model;
}

std::vector<std::vector<WeightFormat>> everything(const ModelPlan& plan) {
  return std::vector<std::vector<WeightFormat>>(plan.tensors.size(), all);
}

TEST(FormatErrors, are_those_of_the_quantized_tensor) {
  const TemporaryFolder folder;
  const TestModel model = two_tiles();
  model.write(folder / "in");
  std::vector<float> weights(1024);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7);
  const std::string name = "model.layers.1.self_attn.o_proj";
  testing::write_safetensors(folder / "statistics.safetensors",
                             {{name, tensor_of(StoredType::f32, {1024}, weights)}});
  QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  options.importance = folder / "statistics.safetensors";
  options.allow_incomplete = true;
  const ModelPlan plan = take(make_model_plan(options));
  const auto formats = everything(plan);
  FormatErrors errors(plan, options, formats);
  std::int64_t told = 0;
  errors.run(open_quantizers(options),
             [&](std::int64_t bytes, std::string_view) { told += bytes; });
  EXPECT_EQ(told, errors.bytes());
  int looked = 0;
  for (std::size_t item = 0; item < plan.shards[0].matrices.size(); ++item) {
    const QuantizedMatrix& matrix = plan.shards[0].matrices[item];
    EXPECT_EQ(errors.weighted(matrix), matrix.slice.module == name);
    if (matrix.slice.module != name) continue;
    ++looked;
    const std::vector<float> values = values_of(model.shards[0].at(name + ".weight"));
    const std::vector<double> shares = errors.shares(0, item);
    ASSERT_EQ(shares.size(), all.size());
    for (std::size_t i = 0; i < 3; ++i) {
      const BlockTensor tensor = quantize({.input = {values.data(), DType::f32, 1100, 1024, 1024},
                                           .format = *blocks_of(all[i]),
                                           .weights = weights});
      std::vector<float> back(values.size());
      dequantize(tensor.view(), {back.data(), DType::f32, 1100, 1024, 1024});
      double error = 0, original = 0;
      for (std::size_t k = 0; k < values.size(); ++k) {
        const double weight = static_cast<double>(weights[k % 1024]);
        const double off = static_cast<double>(values[k]) - static_cast<double>(back[k]);
        error += weight * off * off;
        original += weight * static_cast<double>(values[k]) * static_cast<double>(values[k]);
      }
      EXPECT_NEAR(shares[i], error / original, 1e-9 * shares[i]) << to_string(all[i]);
    }
    EXPECT_GT(shares[1], shares[0]);
    EXPECT_LT(shares[3], shares[0] / 5);
  }
  EXPECT_EQ(looked, 1);
}

// q, k and v lie in two shards and share a global scale.
TEST(FormatErrors, do_not_depend_on_threads) {
  const TemporaryFolder folder;
  two_tiles().write(folder / "in");
  std::vector<std::vector<double>> found[2];
  for (const int run : {0, 1}) {
    QuantizeModelOptions options = options_for(folder, Format::nvfp4, run == 0 ? 1 : 7);
    options.allow_incomplete = true;
    const ModelPlan plan = take(make_model_plan(options));
    const auto formats = everything(plan);
    FormatErrors errors(plan, options, formats);
    errors.run(open_quantizers(options), [](std::int64_t, std::string_view) {});
    for (std::size_t shard = 0; shard < plan.shards.size(); ++shard) {
      for (std::size_t item = 0; item < plan.shards[shard].matrices.size(); ++item)
        found[run].push_back(errors.shares(shard, item));
    }
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST(FormatErrors, refuse_what_cannot_be_quantized_with_its_place) {
  const TemporaryFolder folder;
  TestModel model = testing::sample_model();
  std::vector<float> values = values_of(model.shards[0].at(attention + "q_proj.weight"));
  values[64 * 3 + 5] = std::numeric_limits<float>::quiet_NaN();
  model.shards[0][attention + "q_proj.weight"] = tensor_of(StoredType::bf16, {96, 64}, values);
  model.write(folder / "in");
  const QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  const ModelPlan plan = take(make_model_plan(options));
  const auto formats = everything(plan);
  FormatErrors errors(plan, options, formats);
  expect_error(ErrorCode::bad_input, "[3, 5]", [&] {
    errors.run(open_quantizers(options), [](std::int64_t, std::string_view) {});
  });
}

}  // namespace
}  // namespace microscale
