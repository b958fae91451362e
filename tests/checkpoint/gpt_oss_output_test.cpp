// Fine-tunes of gpt-oss in the published layout: experts stand for what the library makes of their
// columns, everything else stays.
#include "checkpoint/gpt_oss_output.hpp"

#include <gtest/gtest.h>

#include "checkpoint/convert.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "gpt_oss_model.hpp"

namespace microscale {
namespace {

using namespace testing;

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

// Of a folder in which compressed-tensors has each expert by itself.
class GptOssConversion : public GptOssOutput {
 protected:
  ConvertModelOptions conversion(Format format = Format::mxfp4, TestModel model = gpt_oss()) {
    model.write(folder_ / "in");
    QuantizeModelOptions experts_apart = options_for(folder_, format);
    experts_apart.output = folder_ / "apart";
    convert_model(experts_apart);
    ConvertModelOptions options;
    options.input = experts_apart.output;
    options.output = folder_ / "back";
    options.container = Container::gpt_oss;
    options.exact = true;
    return options;
  }
};

TEST_F(GptOssConversion, codes_of_single_experts_go_into_the_published_layout) {
  const ConvertModelOptions apart = conversion();
  const ConvertedModel converted = convert_model(apart);
  EXPECT_EQ(converted.weights, 2 * experts);
  EXPECT_EQ(converted.hash_before, converted.hash_after);
  convert_model(options());  // quantizes straight into that layout: to the same codes
  const QuantizedFolder wanted = take(open_quantized_folder(folder_ / "out"));
  const QuantizedFolder found = take(open_quantized_folder(folder_ / "back"));
  ASSERT_EQ(found.model.tensors.size(), wanted.model.tensors.size());
  for (const ModelTensor& tensor : wanted.model.tensors) {
    // Attention was quantized on the way, and is written as its values.
    if (tensor.name().find("self_attn") != std::string::npos) continue;
    const ModelTensor* other = found.model.find(tensor.name());
    ASSERT_NE(other, nullptr) << tensor.name();
    EXPECT_EQ(other->entry->shape, tensor.entry->shape) << tensor.name();
    const auto bytes_of = [](const QuantizedFolder& folder, const ModelTensor& each) {
      std::vector<std::uint8_t> bytes(each.entry->bytes());
      take(folder.model.shards[each.shard].file.read_at(each.entry->begin, bytes));
      return bytes;
    };
    EXPECT_EQ(bytes_of(found, *other), bytes_of(wanted, tensor)) << tensor.name();
  }
  EXPECT_NE(found.model.config_text->find("\"mxfp4\""), std::string::npos);
  ConvertModelOptions again = apart;
  again.input = folder_ / "back";
  again.output = folder_ / "again";
  again.container = Container::compressed_tensors;
  EXPECT_EQ(convert_model(again).hash_after, converted.hash_after) << "whatever the layout";
}

TEST_F(GptOssConversion, experts_in_several_files_come_together) {
  ConvertModelOptions apart = conversion();
  const ConvertedModel whole = convert_model(apart);
  TestModel parts;
  parts.shards.resize(3);
  const QuantizedFolder folder = take(open_quantized_folder(apart.input));
  std::size_t shard = 0;
  for (const ModelTensor& tensor : folder.model.tensors) {
    std::string bytes(tensor.entry->bytes(), '\0');
    take(folder.model.shards[0].file.read_at(
        tensor.entry->begin, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}));
    parts.shards[shard++ % 3][tensor.name()] = {tensor.entry->type, tensor.entry->shape, bytes};
  }
  parts.config = *folder.model.config_text;
  parts.write(folder_ / "parts");
  apart.input = folder_ / "parts";
  apart.output = folder_ / "joined";
  EXPECT_EQ(convert_model(apart).hash_after, whole.hash_after);
  VerifyModelOptions verify;
  verify.input = apart.output;
  EXPECT_EQ(verify_model(verify), std::vector<std::string>());
}

TEST_F(GptOssConversion, what_the_layout_does_not_hold_is_refused_by_name) {
  ConvertModelOptions apart = conversion(Format::nvfp4);
  expect_error(ErrorCode::bad_input, "' is nvfp4)", [&] { convert_model(apart); });
  apart.to_nvfp4 = true;
  expect_error(ErrorCode::invalid_argument, "leave out --to-nvfp4", [&] { convert_model(apart); });
  EXPECT_FALSE(std::filesystem::exists(apart.output));
}

TEST_F(GptOssConversion, experts_that_are_missing_or_of_another_format_are_named) {
  TestModel dense = gpt_oss();
  const ConvertModelOptions apart = conversion(Format::mxfp4, dense);
  const QuantizedFolder folder = take(open_quantized_folder(apart.input));
  const auto without = [&](const std::string& lost) {
    TestModel model;
    model.shards.resize(1);
    for (const ModelTensor& tensor : folder.model.tensors) {
      if (tensor.name().starts_with(lost)) continue;
      std::string bytes(tensor.entry->bytes(), '\0');
      take(folder.model.shards[0].file.read_at(
          tensor.entry->begin, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}));
      model.shards[0][tensor.name()] = {tensor.entry->type, tensor.entry->shape, bytes};
    }
    model.config = *folder.model.config_text;
    return model;
  };
  ConvertModelOptions options = apart;
  options.input = folder_ / "spoiled";
  for (const std::string lost : {"1.up_proj.weight", "2.down_proj.weight", "2."}) {
    std::filesystem::remove_all(options.input);
    without(moe + lost).write(options.input);
    const std::string name = moe + (lost == "2." ? "2.gate_proj.weight" : lost);
    expect_error(ErrorCode::bad_input, "'" + name + "' is missing",
                 [&] { convert_model(options); });
  }
  TestModel other = without(moe + "1.down_proj.weight");
  other.shards[0][moe + "1.down_proj.weight"] =
      random_tensor(StoredType::bf16, {hidden, inner}, 20);
  std::filesystem::remove_all(options.input);
  other.write(options.input);
  expect_error(ErrorCode::unsupported, "gpt-oss's layout holds MXFP4",
               [&] { convert_model(options); });
  EXPECT_FALSE(std::filesystem::exists(options.output));
}

TEST(StackedSlices, are_the_transposed_matrices_of_a_stack) {
  const auto slices = stacked_slices({"a.down_proj", StoredType::bf16, {2, 3, 5}, 0, 60});
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1].module, "a.down_proj");
  EXPECT_EQ(slices[1].turns, std::vector<std::string>{"a.1.down_proj"});
  EXPECT_EQ(slices[1].rows, 5);
  EXPECT_EQ(slices[1].cols, 3);
  EXPECT_EQ(slices[1].element(4, 2), 15 + 2 * 5 + 4);
}

}  // namespace
}  // namespace microscale
