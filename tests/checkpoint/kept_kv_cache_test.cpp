#include "checkpoint/kept_kv_cache.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"
#include "checkpoint/small_model.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {
namespace {

using testing::SmallModel;
using testing::TemporaryFolder;
using Json = nlohmann::ordered_json;

void write_model(const std::filesystem::path& folder, const Json& scheme) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  const std::string attention = "model.layers.0.self_attn.";
  model.add(attention + "k_scale", StoredType::f32, {}, testing::bytes_of(0.25f));
  model.add(attention + "v_scale", StoredType::f32, {}, testing::bytes_of(0.5f));
  Json config = take(parse_config(model.config));
  config["quantization_config"]["kv_cache_scheme"] = scheme;
  model.config = dump_config(config);
  model.write(folder);
}

Json json_of(const std::filesystem::path& path) { return Json::parse(testing::read_file(path)); }

std::vector<std::string> findings_in(const std::filesystem::path& folder) {
  VerifyModelOptions options;
  options.input = folder;
  return verify_model(options);
}

const Json fp8 = {{"num_bits", 8},
                  {"type", "float"},
                  {"symmetric", true},
                  {"strategy", "tensor"},
                  {"dynamic", false}};

TEST(KeptKvCache, scheme_and_scales_go_to_modelopt_and_back) {
  TemporaryFolder place;
  write_model(place / "ct", fp8);
  ConvertModelOptions options;
  options.input = place / "ct";
  options.output = place / "mo";
  options.container = Container::modelopt;
  convert_model(options);
  EXPECT_EQ(json_of(place / "mo" / "hf_quant_config.json")["quantization"]["kv_cache_quant_algo"],
            "FP8");
  EXPECT_EQ(json_of(place / "mo" / "config.json")["quantization_config"]["kv_cache_scheme"], fp8);
  EXPECT_EQ(findings_in(place / "mo"), std::vector<std::string>());
  // From the file of its own alone, as older exports have it.
  Json config = json_of(place / "mo" / "config.json");
  config.erase("quantization_config");
  testing::write_file(place / "mo" / "config.json", dump_config(config));
  options.input = place / "mo";
  options.output = place / "back";
  options.container = Container::compressed_tensors;
  convert_model(options);
  EXPECT_EQ(json_of(place / "back" / "config.json")["quantization_config"]["kv_cache_scheme"], fp8);
  EXPECT_EQ(findings_in(place / "back"), findings_in(place / "ct"));
}

TEST(KeptKvCache, what_a_container_has_no_words_for_is_said) {
  TemporaryFolder place;
  Json integers = fp8;
  integers["type"] = "int";
  write_model(place / "ct", integers);
  ConvertModelOptions options;
  options.input = place / "ct";
  options.output = place / "mo";
  options.container = Container::modelopt;
  const ConversionPlan plan = plan_convert_model(options);
  ASSERT_FALSE(plan.notices.empty());
  EXPECT_NE(plan.notices.back().find("no words for the key-value cache"), std::string::npos);
}

TEST(KeptKvCache, quantize_hands_the_scheme_on_and_dequantize_leaves_the_scales_out) {
  TemporaryFolder place;
  write_model(place / "in", fp8);
  QuantizeModelOptions options;
  options.input = place / "in";
  options.output = place / "out";
  options.format = Format::mxfp8_e4m3;
  quantize_model(options);
  EXPECT_EQ(json_of(place / "out" / "config.json")["quantization_config"]["kv_cache_scheme"], fp8);
  const DequantizedModel dense =
      dequantize_model({.input = place / "in", .output = place / "dense"});
  std::vector<std::string> dropped;
  for (const auto& left : dense.left_out) dropped.push_back(left.name);
  EXPECT_EQ(dropped, (std::vector<std::string>{"model.layers.0.self_attn.k_scale",
                                               "model.layers.0.self_attn.v_scale"}));
}

}  // namespace
}  // namespace microscale
