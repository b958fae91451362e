#include "checkpoint/compressed_tensors.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/quantization_config.hpp"
#include "microscale/quantize.hpp"
#include "support.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;
using testing::fails_with;

TEST(CompressedTensors, nvfp4_layer_has_packed_codes_linear_scales_and_a_global_scale) {
  const LayerTensors layer = compressed_layer(Format::nvfp4, "a.b", 6, 64);
  EXPECT_EQ(layer.codes.name, "a.b.weight_packed");
  EXPECT_EQ(layer.codes.type, StoredType::u8);
  EXPECT_EQ(layer.codes.shape, (std::vector<std::int64_t>{6, 32}));
  EXPECT_EQ(layer.scales.name, "a.b.weight_scale");
  EXPECT_EQ(layer.scales.type, StoredType::f8_e4m3);
  EXPECT_EQ(layer.scales.shape, (std::vector<std::int64_t>{6, 4}));
  EXPECT_EQ(layer.global_scale.name, "a.b.weight_global_scale");
  EXPECT_EQ(layer.global_scale.type, StoredType::f32);
  EXPECT_EQ(layer.global_scale.shape, (std::vector<std::int64_t>{1}));
}

TEST(CompressedTensors, mx_layers_have_byte_scales_and_nothing_else) {
  const LayerTensors four = compressed_layer(Format::mxfp4, "a", 6, 64);
  EXPECT_EQ(four.codes.name, "a.weight_packed");
  EXPECT_EQ(four.codes.shape, (std::vector<std::int64_t>{6, 32}));
  EXPECT_EQ(four.scales.type, StoredType::u8);
  EXPECT_EQ(four.scales.shape, (std::vector<std::int64_t>{6, 2}));
  EXPECT_EQ(four.global_scale.name, "");
  const LayerTensors eight = compressed_layer(Format::mxfp8_e4m3, "a", 6, 64);
  EXPECT_EQ(eight.codes.name, "a.weight");
  EXPECT_EQ(eight.codes.type, StoredType::f8_e4m3);
  EXPECT_EQ(eight.codes.shape, (std::vector<std::int64_t>{6, 64}));
  EXPECT_EQ(eight.scales.type, StoredType::u8);
}

// The preset NVFP4 of compressed-tensors 0.20.
TEST(CompressedTensors, scaled_inputs_are_nvfp4_with_a_stored_divisor) {
  const LayerScheme scheme{Format::nvfp4, Inputs::scaled};
  const LayerTensors layer = compressed_layer(scheme, "a.b", 6, 64);
  EXPECT_EQ(layer.input_scale.name, "a.b.input_global_scale");
  EXPECT_EQ(layer.input_scale.type, StoredType::f32);
  EXPECT_EQ(layer.input_scale.shape, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(compressed_layer(Format::nvfp4, "a.b", 6, 64).input_scale.name, "");
  const Json config = Json::parse(take(with_quantization_config("{}", scheme, {})));
  const Json& group = config["quantization_config"]["config_groups"]["group_0"];
  Json wanted = group["weights"];
  wanted["dynamic"] = "local";
  EXPECT_EQ(group["input_activations"], wanted);
  const auto parsed = take(parse_quantization_config(config.dump()));
  EXPECT_EQ(parsed->problems, std::vector<std::string>());
  EXPECT_TRUE(parsed->groups[0].static_activations);
  QuantizeModelOptions mx;
  mx.format = Format::mxfp4;
  mx.input_scales = "x.json";
  EXPECT_TRUE(fails_with(check_container(mx), "--input-scales has no effect"));
}

TEST(CompressedTensors, global_scale_on_disk_is_the_divisor) {
  EXPECT_EQ(stored_global_scale(0.25f), 4.0f);
  for (const float amax : {1e-30f, 0.013f, 0.5f, 6.0f, 1e30f}) {
    const float multiplier = nvfp4_global_scale(amax);
    EXPECT_EQ(1.0f / stored_global_scale(multiplier), multiplier) << amax;
  }
}

TEST(CompressedTensors, config_keeps_every_key_in_order_and_describes_the_format) {
  const std::string before =
      R"({"b": 1e-12, "a": [1, 2.50], "z": {"y": null}, "torch_dtype": "bfloat16"})";
  const std::string text =
      take(with_quantization_config(before, Format::nvfp4, {"lm_head", "model.gate"}));
  const Json config = Json::parse(text);
  std::vector<std::string> keys;
  for (const auto& [key, value] : config.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"b", "a", "z", "torch_dtype", "quantization_config"}));
  EXPECT_EQ(config["b"], 1e-12);
  EXPECT_EQ(config["a"], Json::parse("[1, 2.5]"));
  const Json& quantization = config["quantization_config"];
  EXPECT_EQ(quantization["quant_method"], "compressed-tensors");
  EXPECT_EQ(quantization["format"], "nvfp4-pack-quantized");
  EXPECT_EQ(quantization["quantization_status"], "compressed");
  EXPECT_EQ(quantization["ignore"], Json::parse(R"(["lm_head", "model.gate"])"));
  const Json& group = quantization["config_groups"]["group_0"];
  EXPECT_EQ(group["targets"], Json::parse(R"(["Linear"])"));
  EXPECT_TRUE(group["input_activations"].is_null());
  EXPECT_EQ(group["weights"], Json::parse(R"({"num_bits": 4, "type": "float",
      "symmetric": true, "group_size": 16, "strategy": "tensor_group", "dynamic": false,
      "scale_dtype": "torch.float8_e4m3fn"})"));
}

// The presets MXFP4 and MXFP8 of compressed-tensors 0.20.
TEST(CompressedTensors, dynamic_activations_are_quantized_as_the_weights_are) {
  for (const Format format : {Format::mxfp4, Format::mxfp8_e4m3}) {
    const Json config =
        Json::parse(take(with_quantization_config("{}", {format, Inputs::dynamic}, {"lm_head"})));
    const Json& group = config["quantization_config"]["config_groups"]["group_0"];
    Json wanted = group["weights"];
    EXPECT_EQ(wanted["dynamic"], false);
    wanted["dynamic"] = true;
    EXPECT_EQ(group["input_activations"], wanted);
    EXPECT_EQ(wanted["strategy"], "group");
    EXPECT_EQ(wanted["group_size"], 32);
    const auto parsed = take(parse_quantization_config(config.dump()));
    EXPECT_EQ(parsed->problems, std::vector<std::string>());
    EXPECT_TRUE(parsed->groups[0].quantized_activations);
    EXPECT_FALSE(parsed->groups[0].static_activations);
  }
  QuantizeModelOptions options;
  options.activations = Activations::dynamic;
  const Status nvfp4 = check_container(options);
  EXPECT_TRUE(fails_with(nvfp4, "with a scale that is stored for each"));
  EXPECT_EQ(nvfp4.failure().code, ErrorCode::invalid_argument);
}

TEST(CompressedTensors, config_makes_loaders_compute_in_the_type_they_decompress_to) {
  const auto written = [](std::string_view before) {
    return Json::parse(take(with_quantization_config(before, Format::mxfp4, {})));
  };
  EXPECT_EQ(written("{}")["torch_dtype"], "bfloat16");
  EXPECT_EQ(written(R"({"torch_dtype": "float32"})")["torch_dtype"], "bfloat16");
  const Json newer = written(R"({"dtype": "float16"})");
  EXPECT_EQ(newer["dtype"], "bfloat16");
  EXPECT_FALSE(newer.contains("torch_dtype"));
}

// What is written must be what the reader takes for the format, without a complaint.
TEST(CompressedTensors, config_is_understood_by_the_reader) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    const std::string text = take(with_quantization_config("", format, {"lm_head"}));
    const auto config = take(parse_quantization_config(text));
    ASSERT_TRUE(config);
    ASSERT_EQ(config->groups.size(), 1u);
    EXPECT_EQ(config->groups[0].format, format);
    EXPECT_EQ(config->problems, std::vector<std::string>());
    EXPECT_EQ(config->ignore, std::vector<std::string>{"lm_head"});
    EXPECT_FALSE(config->groups[0].static_activations);
  }
}

TEST(CompressedTensors, refuses_formats_that_no_loader_reads) {
  for (const Format format :
       {Format::mxfp6_e2m3, Format::mxfp6_e3m2, Format::mxint8, Format::mxfp8_e5m2}) {
    QuantizeModelOptions options;
    options.format = format;
    const Status status = check_container(options);
    EXPECT_TRUE(fails_with(status, "no checkpoint container that loaders read holds"));
    EXPECT_TRUE(fails_with(status, std::string(info(format).name)));
    EXPECT_EQ(status.failure().code, ErrorCode::unsupported);
  }
  EXPECT_TRUE(check_container({}));
}

}  // namespace
}  // namespace microscale
