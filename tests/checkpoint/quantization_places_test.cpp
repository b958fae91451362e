#include "checkpoint/quantization_places.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/model_builder.hpp"
#include "checkpoint/verify_support.hpp"

namespace microscale {
namespace {

using nlohmann::ordered_json;
using testing::SmallModel;
using testing::Texts;

const ordered_json one{{"quant_method", "compressed-tensors"}};
const ordered_json other{{"quant_method", "modelopt"}};

TEST(QuantizationPlaces, are_looked_at_as_loaders_do) {
  const auto method = [](const ordered_json& config) {
    const ordered_json* found = find_quantization(config);
    return found ? found->at("quant_method").get<std::string>() : std::string("none");
  };
  EXPECT_EQ(method({{"model_type", "llama"}, {"rope_config", {{"a", 1}}}}), "none");
  EXPECT_EQ(method({{"quantization_config", nullptr}}), "none");
  EXPECT_EQ(method({{"text_config", {{"quantization_config", one}}}}), "compressed-tensors");
  EXPECT_EQ(method({{"thinker_config", {{"text_config", {{"quantization_config", one}}}}}}),
            "compressed-tensors");
  EXPECT_EQ(method({{"compression_config", one}}), "compressed-tensors");
  EXPECT_EQ(method({{"compression_config", {{"quantization_config", one}, {"version", "0.6"}}}}),
            "compressed-tensors");
  EXPECT_EQ(method({{"compression_config", one}, {"quantization_config", other}}), "modelopt");
}

TEST(QuantizationPlaces, that_differ_are_rivals) {
  const ordered_json same{{"quantization_config", one},
                          {"text_config", {{"quantization_config", one}}}};
  EXPECT_EQ(rival_quantizations(same), std::vector<std::string>());
  ordered_json two = same;
  two["text_config"]["quantization_config"] = other;
  two["compression_config"] = other;
  EXPECT_EQ(rival_quantizations(two),
            (std::vector<std::string>{"text_config.quantization_config", "compression_config"}));
}

TEST(QuantizationPlaces, all_are_dropped_and_nothing_else) {
  ordered_json config{{"a", 1},
                      {"quantization_config", one},
                      {"compression_config", other},
                      {"text_config", {{"b", 2}, {"quantization_config", one}}}};
  drop_quantization(config);
  EXPECT_EQ(config, (ordered_json{{"a", 1}, {"text_config", {{"b", 2}}}}));
}

// A model whose description lies in text_config, as vLLM reads it.
SmallModel nested(const char* key) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  auto config = ordered_json::parse(model.config);
  const ordered_json description = config["quantization_config"];
  config.erase("quantization_config");
  if (std::string(key) == "text_config") {
    config["text_config"] = {{"quantization_config", description}};
  } else {
    config[key] = description;
  }
  model.config = config.dump();
  return model;
}

TEST(QuantizationPlaces, a_nested_description_is_read_and_does_not_survive) {
  for (const char* key : {"text_config", "compression_config"}) {
    SmallModel model = nested(key);
    EXPECT_EQ(testing::findings_of(model), Texts()) << key;
    const testing::TemporaryFolder folder;
    model.write(folder / "in");
    dequantize_model({.input = folder / "in", .output = folder / "dense"});
    const auto dense = ordered_json::parse(testing::read_file(folder / "dense/config.json"));
    EXPECT_EQ(find_quantization(dense), nullptr) << key;
    QuantizeModelOptions options;
    options.input = folder / "in";
    options.output = folder / "out";
    options.format = Format::mxfp8_e4m3;
    quantize_model(options);
    const auto again = ordered_json::parse(testing::read_file(folder / "out/config.json"));
    EXPECT_TRUE(again.contains("quantization_config"));
    EXPECT_EQ(rival_quantizations(again), std::vector<std::string>()) << key;
    EXPECT_FALSE(again.contains("compression_config"));
    EXPECT_EQ(testing::findings_of(folder / "out"), Texts()) << key;
    // Two that differ are a fault of the input.
    auto config = ordered_json::parse(model.config);
    config["quantization_config"] = *find_quantization(config);
    config["quantization_config"]["ignore"].push_back("another");
    model.config = config.dump();
    const Texts found = testing::findings_of(model);
    ASSERT_EQ(found.size(), 1u) << key;
    EXPECT_NE(found[0].find("describes another quantization than the one that loaders take"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace microscale
