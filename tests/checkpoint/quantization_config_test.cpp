#include "checkpoint/quantization_config.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/compressed_tensors.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;
using testing::fails_with;

Json config_for(Format format) {
  return Json::parse(with_quantization_config("{}", format, {"lm_head", "re:.*gate$"}).value());
}

Json& group(Json& config) { return config["quantization_config"]["config_groups"]["group_0"]; }

QuantizationConfig parsed(const Json& config) {
  const auto result = parse_quantization_config(config.dump());
  EXPECT_TRUE(testing::succeeds(result));
  return result && result.value() ? *result.value() : QuantizationConfig();
}

TEST(QuantizationConfig, reads_what_quantize_writes_without_a_complaint) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    const QuantizationConfig config = parsed(config_for(format));
    ASSERT_EQ(config.groups.size(), 1u);
    EXPECT_EQ(config.groups[0].format, format);
    EXPECT_EQ(config.groups[0].targets, std::vector<std::string>{"Linear"});
    EXPECT_FALSE(config.groups[0].static_activations);
    EXPECT_EQ(config.ignore, (std::vector<std::string>{"lm_head", "re:.*gate$"}));
    EXPECT_EQ(config.problems, std::vector<std::string>());
  }
}

TEST(QuantizationConfig, is_absent_from_a_dense_model) {
  const auto result =
      parse_quantization_config(R"({"model_type": "llama", "quantization_config": null})");
  ASSERT_TRUE(testing::succeeds(result));
  EXPECT_FALSE(result.value().has_value());
}

TEST(QuantizationConfig, takes_nvfp4_without_scale_dtype_as_older_files_have_it) {
  Json config = config_for(Format::nvfp4);
  group(config)["weights"].erase("scale_dtype");
  EXPECT_EQ(parsed(config).problems, std::vector<std::string>());
}

TEST(QuantizationConfig, wants_scale_dtype_of_mxfp8_because_loaders_know_it_by_that) {
  Json config = config_for(Format::mxfp8_e4m3);
  group(config)["weights"].erase("scale_dtype");
  EXPECT_EQ(parsed(config).problems,
            std::vector<std::string>{
                "quantization_config.config_groups.group_0.weights.scale_dtype is ''; "
                "loaders know MXFP8 by torch.uint8, so set that"});
}

TEST(QuantizationConfig, reports_a_format_string_that_contradicts_the_arguments) {
  Json config = config_for(Format::nvfp4);
  group(config)["format"] = "mxfp4-pack-quantized";
  EXPECT_EQ(parsed(config).problems,
            std::vector<std::string>{"quantization_config.config_groups.group_0.format is "
                                     "'mxfp4-pack-quantized' but its arguments describe "
                                     "'nvfp4-pack-quantized'; make them agree"});
  config = config_for(Format::mxfp4);
  config["quantization_config"]["format"] = "pack-quantized";
  EXPECT_EQ(parsed(config).problems,
            std::vector<std::string>{
                "quantization_config.format is 'pack-quantized' but the arguments of "
                "quantization_config.config_groups.group_0 describe "
                "'mxfp4-pack-quantized'; make them agree"});
}

TEST(QuantizationConfig, reports_what_strict_loaders_refuse) {
  Json config = config_for(Format::nvfp4);
  group(config)["weights"]["zero_point"] = 0;
  group(config)["weights"]["strategy"] = "group";
  group(config)["weights"]["symmetric"] = false;
  group(config)["weights"]["actorder"] = "group";
  group(config)["comment"] = "mine";
  config["quantization_config"]["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  config["quantization_config"]["quantization_status"] = "frozen";
  EXPECT_EQ(parsed(config).problems.size(), 7u);
}

TEST(QuantizationConfig, knows_activations_that_need_a_stored_scale) {
  Json config = config_for(Format::nvfp4);
  group(config)["input_activations"] = group(config)["weights"];
  group(config)["input_activations"]["dynamic"] = "local";
  EXPECT_TRUE(parsed(config).groups[0].static_activations);
  group(config)["input_activations"]["dynamic"] = true;
  EXPECT_FALSE(parsed(config).groups[0].static_activations);
}

TEST(QuantizationConfig, names_activations_that_loaders_refuse_or_misread) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    Json config = config_for(format);
    Json& inputs = group(config)["input_activations"];
    inputs = group(config)["weights"];
    inputs["dynamic"] = format == Format::nvfp4 ? Json("local") : Json(true);
    EXPECT_EQ(parsed(config).problems, std::vector<std::string>());
    inputs["observer_of_mine"] = 1;
    EXPECT_EQ(parsed(config).problems.size(), 1u);
    inputs.erase("observer_of_mine");
    if (format == Format::nvfp4) {
      inputs["num_bits"] = 8;
    } else {
      inputs["dynamic"] = false;
    }
    const auto problems = parsed(config).problems;
    ASSERT_EQ(problems.size(), 1u) << info(format).name;
    EXPECT_NE(problems[0].find("input_activations"), std::string::npos) << problems[0];
  }
}

TEST(QuantizationConfig, reads_presets_and_mixed_groups) {
  Json config = config_for(Format::nvfp4);
  auto& top = config["quantization_config"];
  top["format"] = "mixed-precision";
  Json second = group(config);
  second["weights"]["num_bits"] = 8;
  second["weights"]["group_size"] = 32;
  second["weights"]["strategy"] = "group";
  second["weights"]["scale_dtype"] = "torch.uint8";
  second["format"] = "mxfp8-quantized";
  second["targets"] = {"re:.*down_proj$"};
  top["config_groups"]["group_1"] = second;
  const QuantizationConfig mixed = parsed(config);
  ASSERT_EQ(mixed.groups.size(), 2u);
  EXPECT_EQ(mixed.groups[1].format, Format::mxfp8_e4m3);
  EXPECT_EQ(mixed.problems, std::vector<std::string>());

  top["config_groups"] = {{"NVFP4A16", {"Linear"}}};
  const QuantizationConfig preset = parsed(config);
  ASSERT_EQ(preset.groups.size(), 1u);
  EXPECT_EQ(preset.groups[0].format, Format::nvfp4);
  EXPECT_FALSE(preset.groups[0].static_activations);
}

TEST(QuantizationConfig, reads_modelopt) {
  const QuantizationConfig config = parsed(Json::parse(R"({"quantization_config": {
      "quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "model.layers.0.*"],
      "config_groups": {"group_0": {"targets": ["Linear"], "weights":
          {"dynamic": false, "num_bits": 4, "type": "float", "group_size": 16}}}}})"));
  ASSERT_EQ(config.groups.size(), 1u);
  EXPECT_EQ(config.groups[0].format, Format::nvfp4);
  EXPECT_EQ(config.problems, std::vector<std::string>());
}

TEST(QuantizationConfig, describes_groups_that_are_not_decoded_here) {
  Json config = config_for(Format::nvfp4);
  auto& top = config["quantization_config"];
  top["format"] = "mixed-precision";
  const auto add = [&](const std::string& name, const char* arguments) {
    top["config_groups"][name] = {{"format", "float-quantized"},
                                  {"targets", {"re:.*" + name}},
                                  {"weights", Json::parse(arguments)}};
  };
  add("a", R"({"num_bits": 8, "type": "float", "strategy": "channel"})");
  add("b", R"({"num_bits": 8, "type": "float", "strategy": "tensor"})");
  add("c", R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128})");
  add("d",
      R"({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]})");
  top["config_groups"]["W8A8"] = {"re:.*e"};
  const QuantizationConfig mixed = parsed(config);
  EXPECT_EQ(mixed.problems, std::vector<std::string>());
  std::vector<std::string> schemes;
  for (const QuantizationGroup& each : mixed.groups) schemes.push_back(each.scheme);
  EXPECT_EQ(schemes,
            (std::vector<std::string>{"nvfp4", "FP8, one scale per row",
                                      "FP8, one scale per tensor", "INT4 in groups of 128",
                                      "FP8, one scale per block of rows and columns", "W8A8"}));
  EXPECT_EQ(mixed.groups[0].format, Format::nvfp4);
  for (std::size_t i = 1; i < 6; ++i) EXPECT_FALSE(mixed.groups[i].format.has_value());
}

TEST(QuantizationConfig, takes_a_strategy_that_is_left_out_as_compressed_tensors_does) {
  Json config = config_for(Format::nvfp4);
  auto& weights = config["quantization_config"]["config_groups"]["group_0"]["weights"];
  weights = {{"num_bits", 8}, {"type", "float"}};
  EXPECT_EQ(parsed(config).groups[0].scheme, "FP8, one scale per tensor");
  weights["group_size"] = -1;
  EXPECT_EQ(parsed(config).groups[0].scheme, "FP8, one scale per row");
  weights["group_size"] = 64;
  EXPECT_EQ(parsed(config).groups[0].scheme, "FP8 in groups of 64");
}

TEST(QuantizationConfig, tells_how_the_cache_is_scaled) {
  Json config = config_for(Format::nvfp4);
  EXPECT_FALSE(parsed(config).kv_cache.has_value());
  auto& scheme = config["quantization_config"]["kv_cache_scheme"];
  scheme =
      Json::parse(R"({"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false})");
  EXPECT_TRUE(parsed(config).kv_cache->stored_scales);
  EXPECT_FALSE(parsed(config).kv_cache->per_head);
  scheme["strategy"] = "attn_head";
  EXPECT_TRUE(parsed(config).kv_cache->per_head);
  scheme["dynamic"] = true;
  EXPECT_FALSE(parsed(config).kv_cache->stored_scales);
  // A model of which only the cache is quantized.
  config["quantization_config"]["config_groups"] = Json::object();
  EXPECT_TRUE(parsed(config).groups.empty());
}

TEST(QuantizationConfig, refuses_what_it_does_not_know) {
  EXPECT_TRUE(
      fails_with(parse_quantization_config(R"({"quantization_config": {"quant_method": "gptq"}})"),
                 "quant_method is 'gptq'; known here are"));
  EXPECT_TRUE(
      fails_with(parse_quantization_config(R"({"quantization_config": 3})"), "is not an object"));
  EXPECT_TRUE(fails_with(parse_quantization_config("[]"), "it is not a JSON object"));
  Json config = config_for(Format::nvfp4);
  group(config)["weights"]["num_bits"] = "four";
  EXPECT_TRUE(
      fails_with(parse_quantization_config(config.dump()), "num_bits is missing or not a whole"));
  group(config).erase("weights");
  EXPECT_TRUE(fails_with(parse_quantization_config(config.dump()), "weights is missing"));
  group(config)["targets"] = {1};
  EXPECT_TRUE(
      fails_with(parse_quantization_config(config.dump()), "holds something that is not a name"));
  config["quantization_config"]["config_groups"] = Json::object();
  EXPECT_TRUE(
      fails_with(parse_quantization_config(config.dump()), "config_groups is missing or empty"));
}

TEST(QuantizationConfig, is_taken_out_and_the_rest_stays_in_order) {
  const auto dense = dense_config(
      R"({"zeta": 1, "quantization_config": {"quant_method": "x"}, "alpha": [1e-05, "\u00e9"]})",
      DType::bf16);
  ASSERT_TRUE(testing::succeeds(dense));
  EXPECT_EQ(dense.value(),
            "{\n  \"zeta\": 1,\n  \"alpha\": [\n    1e-05,\n    \"\u00e9\"\n  ]\n}\n");
}

TEST(QuantizationConfig, leaves_the_type_of_the_dense_weights_where_a_type_was_named) {
  const auto dense =
      dense_config(R"({"torch_dtype": "bfloat16", "quantization_config": {}})", DType::f32);
  ASSERT_TRUE(testing::succeeds(dense));
  EXPECT_EQ(dense.value(), "{\n  \"torch_dtype\": \"float32\"\n}\n");
  EXPECT_EQ(dense_config(R"({"dtype": "bfloat16"})", DType::f16).value(),
            "{\n  \"dtype\": \"float16\"\n}\n");
}

}  // namespace
}  // namespace microscale
