#include "checkpoint/containers/modelopt_writer.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/convert.hpp"
#include "checkpoint/modelopt_config.hpp"
#include "checkpoint/sample_model.hpp"
#include "checkpoint/verify_model.hpp"
#include "formats/elements.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;
using testing::attention;
using testing::fails_with;
using testing::mlp;
using testing::TemporaryFolder;
using testing::TestTensors;

TEST(ModelOptWriter, layers_have_the_names_types_and_shapes_of_its_export) {
  const ModelOptWriter writer;
  const LayerTensors nvfp4 = writer.layer({WeightFormat::nvfp4, Inputs::scaled}, "a.b", 6, 64);
  EXPECT_EQ(nvfp4.codes.name, "a.b.weight");
  EXPECT_EQ(nvfp4.codes.type, StoredType::u8);
  EXPECT_EQ(nvfp4.codes.shape, (std::vector<std::int64_t>{6, 32}));
  EXPECT_EQ(nvfp4.scales.type, StoredType::f8_e4m3);
  EXPECT_EQ(nvfp4.global_scale.name, "a.b.weight_scale_2");
  EXPECT_TRUE(nvfp4.global_scale.shape.empty());
  EXPECT_EQ(nvfp4.input_scale.name, "a.b.input_scale");
  const LayerTensors mxfp8 = writer.layer(WeightFormat::mxfp8, "a.b", 6, 64);
  EXPECT_EQ(mxfp8.codes.type, StoredType::f8_e4m3);
  EXPECT_EQ(mxfp8.scales.type, StoredType::u8);
  EXPECT_EQ(mxfp8.global_scale.name, "");
  const LayerTensors fp8 = writer.layer(WeightFormat::fp8, "a.b", 6, 64);
  EXPECT_EQ(fp8.scales.type, StoredType::f32);
  EXPECT_EQ(fp8.scales.shape, (std::vector<std::int64_t>{6}));
  const LayerTensors tensor =
      writer.layer({WeightFormat::fp8_tensor, Inputs::scaled}, "a.b", 6, 63);
  EXPECT_EQ(tensor.codes.shape, (std::vector<std::int64_t>{6, 63}));
  EXPECT_EQ(tensor.scales.name, "");
  EXPECT_EQ(tensor.global_scale.name, "a.b.weight_scale");
  EXPECT_TRUE(tensor.global_scale.shape.empty());
  EXPECT_EQ(tensor.input_scale.name, "a.b.input_scale");
}

TEST(ModelOptWriter, excludes_occur_in_no_layer_that_is_quantized) {
  EXPECT_EQ(modelopt_excludes({"a.gate", "lm_head", R"(re:model\.visual\..*)"},
                              {"a.gate_proj", "a.up_proj"}),
            (Names{"a.gat[e]", "lm_head", "model.visual.*"}));
  // by the name of the layer that engines make of both
  EXPECT_EQ(modelopt_excludes({"b.gate_up"}, {"b.gate_proj"}), Names{"b.gate_u[p]"});
}

TEST(ModelOptWriter, has_no_mxfp4) {
  QuantizeModelOptions options;
  EXPECT_TRUE(ModelOptWriter().check(options));
  options.use = {{"*", WeightFormat::mxfp4}};
  EXPECT_TRUE(fails_with(ModelOptWriter().check(options), "no MXFP4 that loaders take"));
}

struct Written {
  TemporaryFolder folder;
  TestTensors tensors;
  Json config, file;
  std::vector<std::string> notices;
  explicit Written(QuantizeModelOptions options) {
    testing::sample_model().write(folder / "in");
    options.input = folder / "in";
    options.output = folder / "out";
    options.container = Container::modelopt;
    options.threads = 2;
    if (!options.input_scales.empty()) {
      options.input_scales = folder / "amax.json";
      Json numbers;
      for (const char* leaf : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
        numbers[attention + leaf] = 5376.0;
      }
      numbers[mlp + "gate_up_proj"] = 2688.0;
      testing::write_file(options.input_scales, numbers.dump());
    }
    notices = convert_model(options).plan.notices;
    tensors = testing::read_tensors(options.output);
    config = Json::parse(testing::read_file(options.output / "config.json"))["quantization_config"];
    file = Json::parse(testing::read_file(options.output / modelopt_file))["quantization"];
    const VerifyReport report = verify_checkpoint(options.output, {});
    EXPECT_EQ(report.errors(), 0) << (report.findings.empty() ? "" : report.findings[0].message);
  }
  float number(const std::string& name) const {
    float value = 0;
    std::memcpy(&value, tensors.at(name).bytes.data(), 4);
    return value;
  }
};

TEST(ModelOptWriter, nvfp4_is_weight_only_without_input_scales) {
  const Written plain({});
  EXPECT_EQ(plain.config["quant_method"], "modelopt");
  EXPECT_EQ(plain.config["quant_algo"], "W4A16_NVFP4");
  EXPECT_FALSE(plain.config["config_groups"]["group_0"].contains("input_activations"));
  EXPECT_EQ(plain.file["quant_algo"], "W4A16_NVFP4");
  for (const char* key : {"group_size", "kv_cache_quant_algo", "exclude_modules"}) {
    EXPECT_TRUE(plain.file.contains(key)) << key;
  }
  EXPECT_EQ(plain.file["group_size"], 16);
  EXPECT_EQ(plain.file["exclude_modules"], plain.config["ignore"]);
  EXPECT_FALSE(plain.tensors.contains(attention + "q_proj.input_scale"));

  QuantizeModelOptions options;
  options.input_scales = "given";
  const Written scaled(options);
  EXPECT_EQ(scaled.config["quant_algo"], "NVFP4");
  EXPECT_EQ(scaled.number(attention + "q_proj.input_scale"), 2.0f);
  EXPECT_EQ(scaled.number(mlp + "up_proj.input_scale"), 1.0f);
  // the same codes as compressed-tensors has, and the multiplier for the divisor
  EXPECT_EQ(scaled.number(attention + "q_proj.weight_scale_2"),
            plain.number(attention + "v_proj.weight_scale_2"));
}

TEST(ModelOptWriter, holds_several_formats_layer_by_layer) {
  QuantizeModelOptions options;
  options.use = {{"*.mlp.*", WeightFormat::fp8}, {"*.o_proj", WeightFormat::mxfp8}};
  const Written mixed(options);
  EXPECT_EQ(mixed.config["quant_algo"], "MIXED_PRECISION");
  EXPECT_EQ(mixed.config["quantized_layers"], mixed.file["quantized_layers"]);
  const Json& layers = mixed.config["quantized_layers"];
  EXPECT_EQ(layers[mlp + "down_proj"]["quant_algo"], "FP8_PER_CHANNEL_PER_TOKEN");
  EXPECT_EQ(layers[attention + "o_proj"], Json::parse(R"({"quant_algo": "MXFP8",
      "group_size": 32})"));
  EXPECT_EQ(layers[attention + "q_proj"]["quant_algo"], "W4A16_NVFP4");
  EXPECT_EQ(mixed.tensors.at(mlp + "down_proj.weight_scale").type, StoredType::f32);
}

TEST(ModelOptWriter, fp8_has_one_scale_for_layers_that_engines_fuse) {
  QuantizeModelOptions options;
  set_format(options, WeightFormat::fp8_tensor);
  const Written plain(options);
  EXPECT_EQ(plain.config["quant_algo"], "FP8");
  const auto said = [](const Written& written) {
    return std::count_if(written.notices.begin(), written.notices.end(), [](const auto& notice) {
      return notice.find("without a scale of their inputs") != std::string::npos;
    });
  };
  EXPECT_EQ(said(plain), 1);
  EXPECT_EQ(plain.file["quant_algo"], "FP8");
  EXPECT_EQ(plain.tensors.at(attention + "q_proj.weight").type, StoredType::f8_e4m3);
  EXPECT_TRUE(plain.tensors.at(attention + "q_proj.weight_scale").shape.empty());
  EXPECT_EQ(plain.number(attention + "q_proj.weight_scale"),
            plain.number(attention + "v_proj.weight_scale"));
  EXPECT_NE(plain.number(attention + "q_proj.weight_scale"),
            plain.number(attention + "o_proj.weight_scale"));
  EXPECT_FALSE(plain.tensors.contains(attention + "q_proj.input_scale"));
  options.input_scales = "given";
  options.ignore = {"*.down_proj"};
  const Written scaled(options);
  EXPECT_EQ(scaled.number(attention + "q_proj.input_scale"), 12.0f);  // 5376 / 448
  EXPECT_EQ(said(scaled), 0);
  // Every code is the value under the scale of its group, which is the largest of v.
  const auto& codes = scaled.tensors.at(attention + "v_proj.weight").bytes;
  const float scale = scaled.number(attention + "v_proj.weight_scale");
  const auto values =
      testing::values_of(testing::sample_model().shards[1].at(attention + "v_proj.weight"));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(static_cast<std::uint8_t>(codes[i]),
              E4M3::encode(values[i] / scale, Rounding::nearest_even));
  }
}

}  // namespace
}  // namespace microscale
