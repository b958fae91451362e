// quantize and dequantize of models that are quantized already, against the same of a dense model
// with the values of their codes.
#include "checkpoint/coded_input.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"
#include "checkpoint/containers/coded_models.hpp"
#include "microscale/checkpoint.hpp"
#include "model_builder.hpp"

namespace microscale {
namespace {

using testing::CodedModel;
using testing::expect_error;
using testing::SmallModel;
using testing::TemporaryFolder;

QuantizeModelOptions options_of(const std::filesystem::path& input,
                                const std::filesystem::path& output,
                                Format format = Format::nvfp4) {
  QuantizeModelOptions options;
  options.input = input;
  options.output = output;
  options.format = format;
  return options;
}

DequantizeModelOptions dense_options(const std::filesystem::path& input,
                                     const std::filesystem::path& output,
                                     DType dtype = DType::bf16) {
  DequantizeModelOptions options;
  options.input = input;
  options.output = output;
  options.dtype = dtype;
  return options;
}

bool is_sound(const std::filesystem::path& folder) {
  VerifyModelOptions options;
  options.input = folder;
  return verify_model(options).empty();
}

// Codes replaced by values of the type in which the weight is read.
SmallModel dense_twin(const CodedModel& coded, const QuantizedFolder& folder) {
  SmallModel dense = coded.model;
  for (const auto& [name, values] : coded.values) {
    const LogicalTensor& tensor = *folder.find(name);
    const std::string shard = folder.file_of(tensor.main_part());
    if (tensor.weight) {
      for (const ModelTensor* part : tensor.weight->facts().parts) dense.remove(part->name());
    } else {
      for (const ModelTensor* part : {tensor.module->codes, tensor.module->scales,
                                      tensor.module->global_scale, tensor.module->input_scale}) {
        if (part) dense.remove(part->name());
      }
    }
    const bool bf16 = tensor.weight ? tensor.weight->facts().type == StoredType::bf16
                                    : info(tensor.module->format).e8m0_scale;
    if (!bf16) {
      dense.add_floats(name, tensor.shape, values, shard);
      continue;
    }
    std::vector<std::uint16_t> bits;
    for (const float value : values) bits.push_back(float_to_bf16(value));
    dense.add(name, StoredType::bf16, tensor.shape, testing::bytes_of(bits), shard);
  }
  if (dense.config.empty()) return dense;
  auto config = take(parse_config(coded.model.config));
  config.erase("quantization_config");
  dense.config = dump_config(config);
  return dense;
}

// Every tensor but those that are kept and were computed: these are BF16 in one output.
void expect_same_tensors(const std::filesystem::path& from_codes,
                         const std::filesystem::path& from_values) {
  const auto mine = testing::read_tensors(from_codes), its = testing::read_tensors(from_values);
  ASSERT_EQ(mine.size(), its.size());
  for (const auto& [name, tensor] : its) {
    ASSERT_TRUE(mine.contains(name)) << name;
    EXPECT_EQ(mine.at(name), tensor) << name;
  }
}

TEST(CodedInput, is_quantized_as_the_dense_model_that_it_stands_for) {
  const std::vector<CodedModel> models{testing::fp8_llama(),
                                       testing::fp8_llama({.type = StoredType::f8_e8m0}),
                                       testing::gpt_oss_model(),
                                       testing::deepseek_v4_model(),
                                       testing::comfyui_model(),
                                       testing::fp8_llama({.name = "weight_scale",
                                                           .type = StoredType::bf16,
                                                           .block_rows = 1,
                                                           .block_cols = 0,
                                                           .in_another_shard = true})};
  for (const CodedModel& coded : models) {
    TemporaryFolder place;
    coded.model.write(place / "coded");
    const QuantizedFolder folder = take(open_quantized_folder(place / "coded"));
    dense_twin(coded, folder).write(place / "dense");
    for (const Format format : {Format::nvfp4, Format::mxfp4}) {
      const std::string name(info(format).name);
      quantize_model(options_of(place / "coded", place / (name + "_coded"), format));
      quantize_model(options_of(place / "dense", place / (name + "_dense"), format));
      expect_same_tensors(place / (name + "_coded"), place / (name + "_dense"));
      EXPECT_TRUE(is_sound(place / (name + "_coded")));
    }
  }
}

TEST(CodedInput, plan_says_what_the_weights_are_and_what_errors_are_against) {
  TemporaryFolder place;
  CodedModel coded = testing::fp8_llama();
  coded.model.files["hf_quant_config.json"] = "{}";
  coded.model.metadata.emplace_back("_quantization_metadata", "{}");
  coded.model.write(place / "in");
  QuantizeModelOptions options = options_of(place / "in", place / "out");
  options.ignore = {"*o_proj"};
  const ConversionPlan plan = plan_quantize_model(options);
  ASSERT_FALSE(plan.notices.empty());
  EXPECT_NE(plan.notices[0].find("quantized already: FP8 E4M3, one scale per 128 x 128 block (7 "
                                 "weights)"),
            std::string::npos)
      << plan.notices[0];
  std::int64_t bytes = 0;
  for (const TensorPlan& tensor : plan.tensors) {
    bytes += tensor.bytes_before;
    if (tensor.name == "model.layers.0.self_attn.o_proj.weight") {
      EXPECT_EQ(tensor.dtype, "FP8 E4M3, one scale per 128 x 128 block");
      EXPECT_EQ(tensor.bytes_before, 320 * 192 + 3 * 2 * 4);
      EXPECT_EQ(tensor.bytes_after, 320 * 192 * 2) << "kept as BF16";
    }
  }
  EXPECT_EQ(plan.bytes_before, bytes);
  std::int64_t done = 0;
  quantize_model(options, [&](std::int64_t now, std::int64_t total, std::string_view) {
    EXPECT_EQ(total, bytes);
    done = now;
    return true;
  });
  EXPECT_EQ(done, bytes);
  EXPECT_FALSE(std::filesystem::exists(place / "out/hf_quant_config.json"));
  for (const ModelShard& shard : take(open_model_folder(place / "out")).shards) {
    for (const auto& [key, value] : shard.header.metadata) EXPECT_EQ(key, "format");
  }
  const auto tensors = testing::read_tensors(place / "out");
  const testing::TestTensor& kept = tensors.at("model.layers.0.self_attn.o_proj.weight");
  const std::vector<float>& values = coded.values["model.layers.0.self_attn.o_proj.weight"];
  EXPECT_EQ(kept, testing::tensor_of(StoredType::bf16, {320, 192}, values));
}

TEST(CodedInput, is_expanded_by_dequantize) {
  TemporaryFolder place;
  const CodedModel coded = testing::fp8_llama();
  coded.model.write(place / "in");
  dequantize_model(dense_options(place / "in", place / "f32", DType::f32));
  dequantize_model(dense_options(place / "in", place / "bf16"));
  const auto wide = testing::read_tensors(place / "f32"),
             narrow = testing::read_tensors(place / "bf16");
  EXPECT_EQ(wide.size(), 9u);
  for (const auto& [name, values] : coded.values) {
    const auto& shape = wide.at(name).shape;
    EXPECT_EQ(wide.at(name), testing::tensor_of(StoredType::f32, shape, values)) << name;
    EXPECT_EQ(narrow.at(name), testing::tensor_of(StoredType::bf16, shape, values)) << name;
  }
  EXPECT_EQ(testing::read_file(place / "f32/config.json").find("quantization_config"),
            std::string::npos);
}

TEST(CodedInput, is_expanded_beside_a_file_of_dense_weights_that_stays_as_it_is) {
  TemporaryFolder place;
  const CodedModel coded = testing::fp8_llama();
  coded.model.write(place / "in");
  const auto norm = testing::random_tensor(StoredType::bf16, {64}, 9);
  testing::write_safetensors(place / "in/mtp.safetensors", {{"mtp.norm.weight", norm}});
  dequantize_model(dense_options(place / "in", place / "f32", DType::f32));
  EXPECT_EQ(testing::read_file(place / "f32/mtp.safetensors"),
            testing::read_file(place / "in/mtp.safetensors"));
  const auto dense = testing::read_tensors(place / "f32");
  for (const auto& [name, values] : coded.values)
    EXPECT_EQ(dense.at(name), testing::tensor_of(StoredType::f32, dense.at(name).shape, values));
}

TEST(CodedInput, with_nan_or_infinite_values_is_refused) {
  CodedModel coded = testing::fp8_llama();
  coded.model.at("model.layers.0.mlp.up_proj.weight_scale_inv").bytes[3] = 0x7F;
  coded.model.at("model.layers.0.mlp.up_proj.weight_scale_inv").bytes[2] = 0xC0;
  TemporaryFolder place;
  coded.model.write(place / "in");
  expect_error(ErrorCode::bad_input, "'model.layers.0.mlp.up_proj.weight'",
               [&] { quantize_model(options_of(place / "in", place / "out")); });
  expect_error(ErrorCode::bad_input, "model.layers.0.mlp.up_proj.weight'",
               [&] { dequantize_model(dense_options(place / "in", place / "dense")); });
  EXPECT_FALSE(std::filesystem::exists(place / "dense"));
}

TEST(CodedInput, that_is_not_whole_is_refused_with_what_is_wrong) {
  CodedModel coded = testing::fp8_llama();
  coded.model.at("model.layers.0.mlp.up_proj.weight_scale_inv") = {
      StoredType::f32, {5}, testing::Bytes(20)};
  TemporaryFolder place;
  coded.model.write(place / "in");
  expect_error(ErrorCode::bad_input, "scales of F32 [5] fit no blocks",
               [&] { quantize_model(options_of(place / "in", place / "out")); });
  expect_error(ErrorCode::bad_input, "scales of F32 [5] fit no blocks",
               [&] { dequantize_model(dense_options(place / "in", place / "dense")); });
}

TEST(CodedInput, of_the_same_format_is_refused_and_of_another_one_taken) {
  TemporaryFolder place;
  testing::small_llama(Format::mxfp4).write(place / "in");
  expect_error(ErrorCode::bad_input, " and 5 more are mxfp4",
               [&] { quantize_model(options_of(place / "in", place / "out", Format::mxfp4)); });
  quantize_model(options_of(place / "in", place / "out"));
  EXPECT_TRUE(is_sound(place / "out"));
}

}  // namespace
}  // namespace microscale
