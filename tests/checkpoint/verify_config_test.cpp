#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/verify_support.hpp"

namespace microscale {
namespace {

using testing::findings_of;
using testing::SmallModel;
using testing::Texts;
using Json = nlohmann::ordered_json;

const std::string q_proj = "model.layers.0.self_attn.q_proj";

/// Changes quantization_config.
template <class Change>
SmallModel with_config(Change change, Format format = Format::nvfp4) {
  SmallModel model = testing::small_llama(format);
  Json config = Json::parse(model.config);
  change(config["quantization_config"]);
  model.config = config.dump();
  return model;
}

TEST(VerifyConfig, wants_a_description_of_quantized_tensors) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.config = R"({"model_type": "llama"})";
  EXPECT_EQ(
      findings_of(model),
      Texts{
          "error no-quantization-config | config.json: it has no quantization_config although "
          "tensors are quantized, so loaders will not find the weights; convert the model again"});
  model.files["hf_quant_config.json"] = "{}";
  EXPECT_EQ(findings_of(model), Texts{"warning config-not-checked | hf_quant_config.json: "
                                      "config.json leaves the description of "
                                      "the quantization to this file, which is not checked"});
}

TEST(VerifyConfig, wants_tensors_for_a_description) {
  SmallModel model;
  model.add_floats("model.layers.0.mlp.up_proj.weight", {2, 2}, {1, 2, 3, 4});
  model.config = testing::small_llama(Format::nvfp4).config;
  EXPECT_EQ(findings_of(model),
            Texts{"error config-without-tensors | config.json: it describes a quantized model, but "
                  "no tensor "
                  "is quantized; remove quantization_config or convert the model again"});
}

TEST(VerifyConfig, reports_a_config_it_cannot_read) {
  const SmallModel model = with_config([](Json& config) { config["quant_method"] = "awq"; });
  EXPECT_EQ(
      findings_of(model),
      Texts{"error config | config.json: quantization_config.quant_method is 'awq'; known here are "
            "'compressed-tensors' and 'modelopt'; convert the model again"});
}

TEST(VerifyConfig, reports_what_strict_loaders_refuse) {
  const SmallModel model =
      with_config([](Json& config) { config["config_groups"]["group_0"]["weights"]["bits"] = 4; });
  EXPECT_EQ(
      findings_of(model),
      Texts{"error config | config.json: quantization_config.config_groups.group_0.weights has the "
            "unknown key 'bits', which strict loaders refuse; remove it"});
}

TEST(VerifyConfig, ignored_modules_may_not_be_quantized) {
  const SmallModel model =
      with_config([](Json& config) { config["ignore"].push_back("re:.*down_proj$"); });
  EXPECT_EQ(
      findings_of(model),
      Texts{"error quantized-but-ignored | model.safetensors: 'model.layers.0.mlp.down_proj': the "
            "module is quantized although config.json ignores it, so loaders will not find its "
            "weight; "
            "take it off quantization_config.ignore or convert the model again"});
}

TEST(VerifyConfig, quantized_modules_must_be_targeted) {
  const SmallModel model = with_config([](Json& config) {
    config["config_groups"]["group_0"]["targets"] = {"re:.*(q|k|v|gate|up)_proj$"};
  });
  EXPECT_EQ(findings_of(model), Texts{"error quantized-but-not-targeted | model.safetensors: "
                                      "'model.layers.0.mlp.down_proj': the "
                                      "module is quantized but no group of config.json targets it, "
                                      "so loaders will not find its "
                                      "weight; add it to the targets or convert the model again"});
}

TEST(VerifyConfig, dense_linear_layers_must_be_ignored) {
  const SmallModel model = with_config([](Json& config) { config["ignore"] = Json::array(); });
  EXPECT_EQ(
      findings_of(model),
      Texts{
          "error dense-but-expected | model.safetensors: 'lm_head.weight': the weight is not "
          "quantized although config.json targets its layer, so loaders look for codes and scales; "
          "add the layer to quantization_config.ignore or convert the model again"});
}

TEST(VerifyConfig, formats_must_agree_with_the_tensors) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.config = testing::small_llama(Format::mxfp4).config;
  const Texts texts = findings_of(model);
  ASSERT_EQ(texts.size(), 6u);
  EXPECT_EQ(
      texts[5],
      "error format-mismatch | model.safetensors: '" + q_proj.substr(0, q_proj.size() - 6) +
          "v_proj': its tensors are nvfp4 but config.json (group_0) says mxfp4; make them agree or "
          "convert the model again");
}

TEST(VerifyConfig, names_must_be_those_of_the_method) {
  SmallModel model = testing::small_llama(Format::mxfp4);
  const std::string down = "model.layers.0.mlp.down_proj";
  model.rename(down + ".weight_packed", down + ".weight");
  EXPECT_EQ(findings_of(model),
            Texts{"error wrong-names | model.safetensors: '" + down +
                  "': its codes are called weight, but loaders of 'compressed-tensors' look for "
                  "weight_packed; rename them or convert the model again"});
}

TEST(VerifyConfig, activation_scales_must_be_there_exactly_when_asked_for) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.add_floats(q_proj + ".input_global_scale", {1}, {3.0f});
  EXPECT_EQ(
      findings_of(model),
      Texts{
          "error extra-tensor | model.safetensors: '" + q_proj + "': '" + q_proj +
          ".input_global_scale' is stored, but config.json asks for no stored activation scale, so "
          "strict loaders refuse it; remove it or describe the activations"});

  model = with_config([](Json& config) {
    Json& group = config["config_groups"]["group_0"];
    group["input_activations"] = group["weights"];
    group["input_activations"]["dynamic"] = "local";
  });
  for (const std::string name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                 "mlp.gate_proj", "mlp.up_proj"}) {
    model.add_floats("model.layers.0." + name + ".input_global_scale", {1}, {3.0f});
  }
  EXPECT_EQ(findings_of(model),
            Texts{"error missing-input-scale | model.safetensors: 'model.layers.0.mlp.down_proj': "
                  "config.json asks for quantized activations, but the module has no input scale, "
                  "which some "
                  "loaders take for zero; calibrate it or set input_activations to null"});
}

TEST(VerifyConfig, the_type_of_the_model_should_be_what_loaders_decompress_to) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  Json config = Json::parse(model.config);
  config.erase("torch_dtype");
  model.config = config.dump();
  EXPECT_EQ(findings_of(model), Texts());
  config["dtype"] = "float32";
  model.config = config.dump();
  EXPECT_EQ(
      findings_of(model),
      Texts{
          "warning model-dtype | config.json: the model's type is 'float32', but transformers "
          "decompresses weights to bfloat16 and multiplies them by inputs of the model's type; set "
          "torch_dtype to bfloat16"});
}

TEST(VerifyConfig, says_what_it_cannot_judge) {
  const SmallModel model =
      with_config([](Json& config) { config["ignore"].push_back("re:(?i)HEAD"); });
  EXPECT_EQ(
      findings_of(model),
      Texts{
          "warning config-not-checked | config.json: the entry 're:(?i)HEAD' of targets or ignore "
          "cannot be judged from the tensors alone, so modules it may mean are not checked against "
          "it"});
}

}  // namespace
}  // namespace microscale
