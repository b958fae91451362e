#include "checkpoint/config_contradictions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoint/inspect_model.hpp"
#include "checkpoint/verify_support.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {
namespace {

using testing::SmallModel;
using testing::TemporaryFolder;
using testing::Texts;
using Json = nlohmann::ordered_json;

const std::string q_proj = "model.layers.0.self_attn.q_proj";
const std::string down_proj = "model.layers.0.mlp.down_proj";

bool holds(const Texts& texts, const std::string& part) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

Texts told_of(const SmallModel& model) {
  const TemporaryFolder folder;
  model.write(folder.path());
  return config_contradictions(take(open_quantized_folder(folder.path())));
}

SmallModel with_config(const std::function<void(Json&)>& change, Format format = Format::nvfp4) {
  SmallModel model = testing::small_llama(format);
  Json config = Json::parse(model.config);
  change(config);
  model.config = config.dump();
  return model;
}

struct Case {
  const char* name;
  SmallModel model;
  std::string told;
  bool verify_has_it = true;
};

void in_quantization(SmallModel& model, const std::function<void(Json&)>& change) {
  Json config = Json::parse(model.config);
  change(config["quantization_config"]);
  model.config = config.dump();
}

Json& group_0(Json& config) { return config["quantization_config"]["config_groups"]["group_0"]; }

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, SmallModel model, const std::string& told,
                       bool verify_has_it = true) {
    all.push_back({name, std::move(model), told, verify_has_it});
  };
  add("format", with_config([](Json& config) { group_0(config)["weights"]["group_size"] = 32; }),
      "its tensors are nvfp4 but config.json (group_0) says mxfp4");
  add("group size",
      with_config([](Json& config) { group_0(config)["weights"]["group_size"] = 64; }),
      "its tensors are nvfp4 but config.json (group_0) says FP4 in groups of 64");
  add("format string", with_config([](Json& config) {
        config["quantization_config"]["format"] = "mxfp8-quantized";
      }),
      "make them agree");
  add("targets", with_config([](Json& config) { group_0(config)["targets"] = {"re:.*q_proj"}; }),
      "quantized but no group of config.json targets it");
  add("ignore", with_config([](Json& config) {
        config["quantization_config"]["ignore"] = {"lm_head", q_proj};
      }),
      "although config.json ignores it");
  add("method", with_config([](Json& config) {
        config["quantization_config"] = {{"quant_method", "fp8"}, {"fmt", "e4m3"}};
      }),
      "it says that 'fp8' quantized the model, but '" + down_proj + ".weight' is nvfp4");
  add("method of gpt-oss",
      with_config(
          [](Json& config) {
            config["quantization_config"] = {{"quant_method", "mxfp4"}};
          },
          Format::mxfp8_e4m3),
      "it says that 'mxfp4' quantized the model, but");
  add("names", with_config([](Json& config) {
        config["quantization_config"] = {{"quant_method", "modelopt"},
                                         {"quant_algo", "W4A16_NVFP4"},
                                         {"exclude_modules", {"lm_head"}}};
      }),
      "its codes are called weight_packed, but loaders of 'modelopt' look for weight");
  add("nothing said", with_config([](Json& config) { config.erase("quantization_config"); }),
      "no quantization_config although tensors are quantized");
  SmallModel inputs = testing::small_llama(Format::nvfp4);
  in_quantization(inputs, [](Json& config) {
    Json activations = config["config_groups"]["group_0"]["weights"];
    activations["dynamic"] = "local";
    config["config_groups"]["group_0"]["input_activations"] = activations;
  });
  add("scales of inputs that are not there", inputs, "the module has no input scale");
  for (const std::string name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                 "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    inputs.add_floats("model.layers.0." + name + ".input_global_scale", {1}, {10.0f / 2688});
  }
  add("scales of inputs upside down", inputs, "stands for inputs as large as 7.23e+05");
  SmallModel globals = testing::small_llama(Format::nvfp4);
  for (const std::string name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                 "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    globals.at("model.layers.0." + name + ".weight_global_scale").bytes =
        testing::bytes_of(nvfp4_global_scale(0.125f));
  }
  // verify has its own words, of the scales that are there.
  add("global scales upside down", globals, "it may be stored as its reciprocal", false);
  SmallModel dense = testing::small_llama(Format::nvfp4);
  for (const char* ending : {".weight_packed", ".weight_scale", ".weight_global_scale"})
    dense.remove(down_proj + ending);
  dense.add_floats(down_proj + ".weight", {64, 64}, testing::gaussian(64 * 64, 9));
  add("a layer that is dense", dense, "is not quantized although config.json targets its layer");
  return all;
}

TEST(ConfigContradictions, nothing_is_said_where_there_is_none) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    EXPECT_EQ(told_of(testing::small_llama(format)), Texts());
  }
  SmallModel dense;
  dense.add_floats("model.layers.0.mlp.up_proj.weight", {64, 64}, testing::gaussian(4096, 1));
  dense.config = R"({"model_type": "llama"})";
  EXPECT_EQ(told_of(dense), Texts());
}

TEST(ConfigContradictions, are_said_once_for_each_kind) {
  const Texts told = told_of(with_config([](Json& config) {
    config["quantization_config"]["ignore"] = {"lm_head", "re:.*self_attn.*"};
  }));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("(and 2 more; `microscale verify` lists them)"), std::string::npos)
      << told[0];
}

// inspect, verify, quantize, convert and dequantize: each says it, and goes on by the tensors.
TEST(ConfigContradictions, every_command_tells) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const TemporaryFolder place;
    one.model.write(place / "m");
    EXPECT_TRUE(holds(config_contradictions(take(open_quantized_folder(place / "m"))), one.told));
    EXPECT_TRUE(holds(summarize_model(take(open_quantized_folder(place / "m"))).notes, one.told));
    const Texts found = testing::findings_of(place / "m");
    EXPECT_TRUE(holds(found, one.verify_has_it ? one.told : "stored as its reciprocal"));
    const bool nvfp4 = one.model.shards.begin()->second.contains(q_proj + ".weight_global_scale");
    QuantizeModelOptions options;
    options.input = place / "m";
    options.output = place / "q";
    options.format = nvfp4 ? Format::mxfp4 : Format::nvfp4;
    EXPECT_TRUE(holds(plan_quantize_model(options).notices, one.told));
    EXPECT_TRUE(
        holds(plan_convert_model(
                  {.input = place / "m", .output = place / "c", .container = Container::modelopt})
                  .notices,
              one.told));
    EXPECT_TRUE(
        holds(dequantize_model({.input = place / "m", .output = place / "d"}).notices, one.told));
  }
}

// FP8 with one scale for each row, described as what it is not.
TEST(ConfigContradictions, of_fp8_are_told_too) {
  const auto model = [](const Json& weights, const Json& activations) {
    SmallModel one;
    const std::string module = "model.layers.0.mlp.up_proj";
    one.add(module + ".weight", StoredType::f8_e4m3, {64, 64}, testing::Bytes(4096, 0x38));
    one.add_floats(module + ".weight_scale", {64, 1}, std::vector<float>(64, 0.01f));
    const Json group{{"targets", {"Linear"}},
                     {"weights", weights},
                     {"input_activations", activations},
                     {"format", "float-quantized"}};
    one.config = Json{{"model_type", "llama"},
                      {"quantization_config",
                       {{"quant_method", "compressed-tensors"},
                        {"format", "float-quantized"},
                        {"quantization_status", "compressed"},
                        {"ignore", Json::array()},
                        {"config_groups", {{"group_0", group}}}}}}
                     .dump();
    return one;
  };
  const Json fp8{{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}};
  EXPECT_EQ(told_of(model(fp8, nullptr)), Texts());
  const Json int4{{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 128}};
  EXPECT_TRUE(
      holds(told_of(model(int4, nullptr)),
            "its tensors are FP8 E4M3, one scale per row but config.json (group_0) says INT4"));
  const Json stored{{"num_bits", 8}, {"type", "float"}, {"strategy", "tensor"}, {"dynamic", false}};
  EXPECT_TRUE(holds(told_of(model(fp8, stored)), "asks for activations with a stored scale"));
  SmallModel scaled = model(fp8, stored);
  scaled.add_floats("model.layers.0.mlp.up_proj.input_scale", {1}, {0.1f});
  EXPECT_EQ(told_of(scaled), Texts());
}

}  // namespace
}  // namespace microscale
