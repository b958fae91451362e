#include "checkpoint/modelopt_config.hpp"

#include <gtest/gtest.h>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;
using Names = std::vector<std::string>;

QuantizationConfig parsed(std::string_view text) {
  auto config = parse_modelopt_file(text);
  EXPECT_TRUE(succeeds(config));
  return config ? config.value() : QuantizationConfig();
}

TEST(ModeloptConfig, reads_one_algorithm_for_the_model) {
  const QuantizationConfig config = parsed(R"({"producer": {"name": "modelopt"}, "quantization": {
      "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
      "exclude_modules": ["lm_head", "model.layers.0.*"]}})");
  EXPECT_TRUE(config.is_modelopt());
  ASSERT_EQ(config.groups.size(), 1u);
  EXPECT_EQ(config.groups[0].format, Format::nvfp4);
  EXPECT_EQ(config.groups[0].targets, Names{"Linear"});
  EXPECT_TRUE(config.groups[0].static_activations);
  EXPECT_EQ(config.ignore, (Names{"lm_head", "model.layers.0.*"}));
  EXPECT_TRUE(config.kv_cache.has_value());
  EXPECT_EQ(config.problems, Names());
}

TEST(ModeloptConfig, knows_what_the_algorithms_are) {
  const auto group_of = [](const std::string& algorithm) {
    return parsed(R"({"quantization": {"quant_algo": ")" + algorithm +
                  R"(", "group_size": 16, "kv_cache_quant_algo": null, "exclude_modules": []}})")
        .groups.at(0);
  };
  EXPECT_EQ(group_of("W4A16_NVFP4").format, Format::nvfp4);
  EXPECT_FALSE(group_of("W4A16_NVFP4").static_activations);
  EXPECT_EQ(group_of("MXFP8").format, Format::mxfp8_e4m3);
  EXPECT_EQ(group_of("W4A8_MXFP4_FP8").format, Format::mxfp4);
  EXPECT_FALSE(group_of("FP8").format.has_value());
  EXPECT_EQ(group_of("FP8").scheme, "FP8, one scale per tensor");
  EXPECT_EQ(group_of("FP8_PB_WO").scheme, "FP8, one scale per block of rows and columns");
  // One that came later is named as it is.
  EXPECT_EQ(group_of("W2A2_NEW").scheme, "W2A2_NEW");
}

TEST(ModeloptConfig, reads_algorithms_layer_by_layer) {
  const QuantizationConfig config = parsed(R"({"quantization": {"quant_algo": "MIXED_PRECISION",
      "kv_cache_quant_algo": null, "exclude_modules": [], "quantized_layers": {
        "a.q_proj": {"quant_algo": "FP8"}, "a.up": {"quant_algo": "NVFP4", "group_size": 16},
        "a.down": {"quant_algo": "NVFP4", "group_size": 16},
        "a.mlp.experts": {"quant_algo": "MXFP8"}}}})");
  ASSERT_EQ(config.groups.size(), 3u);
  EXPECT_EQ(config.groups[0].scheme, "FP8, one scale per tensor");
  EXPECT_EQ(config.groups[0].targets, Names{"a.q_proj"});
  // Experts as one module stand for each of their layers.
  EXPECT_EQ(config.groups[1].targets, (Names{"a.mlp.experts", R"(re:a\.mlp\.experts\..*)"}));
  EXPECT_EQ(config.groups[2].targets, (Names{"a.up", "a.down"}));
  EXPECT_FALSE(config.kv_cache.has_value());
  EXPECT_EQ(config.problems, Names());
}

TEST(ModeloptConfig, misses_what_vllm_asks_for) {
  EXPECT_EQ(parsed(R"({"quantization": {"quant_algo": "NVFP4"}})").problems,
            (Names{"quantization.group_size is missing, which vLLM asks for; add it (16)",
                   "quantization.kv_cache_quant_algo is missing, which vLLM asks for; add it",
                   "quantization.exclude_modules is missing, which vLLM asks for; add it"}));
  EXPECT_EQ(parsed(R"({"quantization": {"quant_algo": "FP8"}})").problems, Names());
}

TEST(ModeloptConfig, says_what_it_cannot_read) {
  EXPECT_TRUE(fails_with(parse_modelopt_file("[]"), "it is not a JSON object"));
  EXPECT_TRUE(fails_with(parse_modelopt_file("{}"), "quantization is missing"));
  EXPECT_TRUE(fails_with(parse_modelopt_file(R"({"quantization": {}})"),
                         "neither quant_algo nor quantized_layers"));
  EXPECT_TRUE(fails_with(parse_modelopt_file(R"({"quantization": {"quantized_layers": 3}})"),
                         "quantized_layers is not an object"));
  EXPECT_TRUE(
      fails_with(parse_modelopt_file(R"({"quantization": {"quantized_layers": {"a": {}}}})"),
                 "quantized_layers gives 'a' no quant_algo"));
  EXPECT_TRUE(fails_with(
      parse_modelopt_file(R"({"quantization": {"quant_algo": "FP8", "exclude_modules": [1]}})"),
      "exclude_modules holds something that is not a name"));
}

}  // namespace
}  // namespace microscale
