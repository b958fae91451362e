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
      Texts{"error no-quantization-config | config.json: it has no quantization_config although "
            "tensors are quantized ('model.layers.0.mlp.down_proj.weight_packed' is nvfp4), so "
            "loaders "
            "will not find the weights; convert the model again"});
  model.files["hf_quant_config.json"] = "{}";
  EXPECT_EQ(findings_of(model),
            Texts{"error config | hf_quant_config.json: quantization is missing; "
                  "mend it"});
}

/// The Llama as ModelOpt writes it: other names, a multiplier, no description in config.json.
SmallModel modelopt_llama(const std::string& quantization) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  for (const std::string name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                 "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    const std::string module = "model.layers.0." + name;
    model.rename(module + ".weight_packed", module + ".weight");
    model.remove(module + ".weight_global_scale");
    model.add_floats(module + ".weight_scale_2", {}, {nvfp4_global_scale(0.125f)});
  }
  model.config = R"({"model_type": "llama"})";
  model.files["hf_quant_config.json"] = R"({"quantization": {"group_size": 16,
      "kv_cache_quant_algo": null, "exclude_modules": ["lm_head"], )" +
                                        quantization + "}}";
  return model;
}

TEST(VerifyConfig, reads_modelopts_own_file) {
  EXPECT_EQ(findings_of(modelopt_llama(R"("quant_algo": "W4A16_NVFP4")")), Texts());
  const Texts static_inputs = findings_of(modelopt_llama(R"("quant_algo": "NVFP4")"));
  ASSERT_EQ(static_inputs.size(), 6u);
  EXPECT_TRUE(static_inputs[0].starts_with("error missing-input-scale")) << static_inputs[0];
  const Texts other = findings_of(modelopt_llama(R"("quant_algo": "MXFP8")"));
  ASSERT_EQ(other.size(), 6u);
  EXPECT_EQ(
      other[0],
      "error format-mismatch | model.safetensors: 'model.layers.0.mlp.down_proj': its tensors "
      "are nvfp4 but hf_quant_config.json (MXFP8) says mxfp8_e4m3; make them agree or convert the "
      "model again");
}

TEST(VerifyConfig, reads_modelopts_layers_one_by_one) {
  std::string layers;
  for (const std::string name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                 "mlp.gate_proj", "mlp.up_proj"}) {
    layers +=
        R"("model.layers.0.)" + name + R"(": {"quant_algo": "W4A16_NVFP4", "group_size": 16}, )";
  }
  const std::string down = R"("model.layers.0.mlp.down_proj": {"quant_algo": ")";
  const auto mixed = [&](const std::string& algorithm) {
    return findings_of(modelopt_llama(R"("quant_algo": "MIXED_PRECISION", "quantized_layers": {)" +
                                      layers + down + algorithm + R"("}})"));
  };
  EXPECT_EQ(mixed("W4A16_NVFP4"), Texts());
  EXPECT_EQ(
      mixed("FP8"),
      Texts{"error format-mismatch | model.safetensors: 'model.layers.0.mlp.down_proj': its "
            "tensors are nvfp4 but hf_quant_config.json (FP8) says FP8, one scale per tensor; "
            "make them agree or convert the model again"});
}

TEST(VerifyConfig, the_two_descriptions_must_agree) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.files["hf_quant_config.json"] = R"({"quantization": {"quant_algo": "MXFP8"}})";
  EXPECT_EQ(findings_of(model),
            Texts{"error config | hf_quant_config.json: it describes mxfp8_e4m3 where config.json "
                  "describes nvfp4, and loaders read one or the other; make them agree"});
}

TEST(VerifyConfig, groups_that_are_no_format_of_ours_are_held_against_the_tensors) {
  SmallModel model = with_config([](Json& config) {
    Json group = config["config_groups"]["group_0"];
    group["format"] = "float-quantized";
    group["targets"] = {"re:.*o_proj$"};
    group["weights"] = {{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}};
    config["config_groups"]["group_1"] = group;
    config["format"] = "mixed-precision";
  });
  const std::string o_proj = "model.layers.0.self_attn.o_proj";
  model.add(o_proj + ".weight", StoredType::f8_e4m3, {4, 4}, testing::Bytes(16, 0x38));
  model.add_floats(o_proj + ".weight_scale", {4, 1}, {1, 1, 1, 1});
  EXPECT_EQ(findings_of(model), Texts());
  // The same tensors where the config says something else.
  SmallModel contradicted = model;
  Json config = Json::parse(model.config);
  config["quantization_config"]["config_groups"].erase("group_1");
  config["quantization_config"]["format"] = "nvfp4-pack-quantized";
  contradicted.config = config.dump();
  EXPECT_EQ(findings_of(contradicted),
            Texts{"error format-mismatch | model.safetensors: '" + o_proj +
                  "': its tensors are FP8 E4M3, one scale per row but config.json (group_0) says "
                  "nvfp4; make them agree"});
  // Codes that are not decoded.
  model.at(o_proj + ".weight").type = StoredType::i8;
  EXPECT_EQ(
      findings_of(model),
      (Texts{"warning not-decoded | model.safetensors: '" + o_proj +
                 "': the module is INT8 with scales of type F32, which is not decoded here: names "
                 "and types are checked, codes and scales are not",
             "error format-mismatch | model.safetensors: '" + o_proj +
                 "': its tensors are INT8 with scales of type F32 but config.json (group_1) "
                 "says FP8, one scale per row; make them agree"}));
}

TEST(VerifyConfig, names_a_module_that_two_groups_name) {
  SmallModel model = with_config([](Json& config) {
    Json group = config["config_groups"]["group_0"];
    config["config_groups"]["group_0"]["targets"] = {"re:.*"};
    config["format"] = "mixed-precision";
    group["format"] = "mxfp8-quantized";
    group["targets"] = {"re:.*down_proj$"};
    group["weights"] = {
        {"num_bits", 8},     {"type", "float"},  {"strategy", "group"},         {"group_size", 32},
        {"symmetric", true}, {"dynamic", false}, {"scale_dtype", "torch.uint8"}};
    config["config_groups"]["group_1"] = group;
  });
  const std::string down = "model.layers.0.mlp.down_proj";
  for (const char* part : {".weight_packed", ".weight_scale", ".weight_global_scale"}) {
    model.remove(down + part);
  }
  model.add_quantized(down, Format::mxfp8_e4m3, 64, 64, testing::gaussian(64 * 64, 5));
  EXPECT_EQ(
      findings_of(model),
      Texts{"error format-mismatch | model.safetensors: '" + down +
            "': its tensors are mxfp8_e4m3 but config.json (group_0) says nvfp4; group_1 says "
            "mxfp8_e4m3 too but comes later, and loaders differ in which they take; let one of "
            "them name it"});
}

TEST(VerifyConfig, names_codes_that_nothing_describes) {
  for (const auto& [name, type, mark] :
       {std::tuple("up_proj.qweight", StoredType::i32, "GPTQ"),
        std::tuple("up_proj.weight", StoredType::i8, "INT8 weights"),
        std::tuple("up_proj.weight", StoredType::f8_e4m3, "FP8 weights without a scale"),
        std::tuple("experts.gate_up_proj", StoredType::u8, "pack several codes")}) {
    SmallModel model;
    const std::string tensor = std::string("model.layers.0.mlp.") + name;
    const std::size_t bytes = 4 * static_cast<std::size_t>(bits_per_element(type)) / 8;
    model.add(tensor, type, {2, 2}, testing::Bytes(bytes, 1));
    model.config = R"({"model_type": "llama"})";
    const Texts texts = findings_of(model);
    ASSERT_EQ(texts.size(), 1u) << name;
    EXPECT_TRUE(
        texts[0].starts_with("error no-quantization-config | config.json: it has no "
                             "quantization_config although tensors are quantized ('" +
                             tensor + "' shows "))
        << texts[0];
    EXPECT_NE(texts[0].find(mark), std::string::npos) << texts[0];
  }
}

TEST(VerifyConfig, leaves_the_methods_of_other_tools_alone) {
  SmallModel model;
  model.add("model.layers.0.mlp.up_proj.qweight", StoredType::i32, {2, 2}, testing::Bytes(16, 1));
  model.config = R"({"model_type": "llama", "quantization_config": {"quant_method": "gptq"}})";
  EXPECT_EQ(
      findings_of(model),
      Texts{"warning config-not-checked | config.json: the model is quantized by 'gptq', whose "
            "tensors are not decoded here: headers and dense values are checked, codes and "
            "scales are not"});
}

// A merged adapter keeps the description of its quantized base.
TEST(VerifyConfig, a_method_of_another_tool_over_dense_weights_is_named) {
  SmallModel model;
  model.add_floats("model.layers.0.mlp.up_proj.weight", {2, 2}, {1, 2, 3, 4});
  model.config = R"({"model_type": "a", "quantization_config": {"quant_method": "bitsandbytes"}})";
  EXPECT_EQ(findings_of(model),
            Texts{"warning config-without-tensors | config.json: it says that 'bitsandbytes' "
                  "quantized the model, but no tensor is quantized, so loaders look for what is "
                  "not there; if the weights are dense, remove quantization_config"});
  model.config = R"({"model_type": "a", "quantization_config": {}})";
  for (const std::string& text : findings_of(model)) {
    EXPECT_EQ(text.find("quantized by"), text.npos) << text;
  }
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

// Which layers are left out, and how long blocks are.
TEST(VerifyConfig, the_two_descriptions_must_leave_out_the_same_layers) {
  const auto findings_with = [](const std::string& excludes, int group) {
    SmallModel model = modelopt_llama("");
    model.config = R"({"model_type": "llama", "quantization_config": {"quant_method": "modelopt",
                       "quant_algo": "W4A16_NVFP4", "ignore": ["lm_head"]}})";
    model.files["hf_quant_config.json"] =
        R"({"quantization": {"quant_algo": "W4A16_NVFP4", "kv_cache_quant_algo": null,
            "group_size": )" +
        std::to_string(group) + R"(, "exclude_modules": )" + excludes + "}}";
    return findings_of(model);
  };
  EXPECT_EQ(findings_with(R"(["lm_head"])", 16), Texts());
  EXPECT_EQ(findings_with(R"(["lm_hea*"])", 16), Texts()) << "the same in other words";
  const auto differ = [](const std::string& layer) {
    return Texts{"error config | hf_quant_config.json: of it and config.json one has '" + layer +
                 "' quantized and the other leaves it out, and loaders read one or the other; make "
                 "them agree"};
  };
  EXPECT_EQ(findings_with(R"(["lm_head", "*self_attn.o*", "*q_proj"])", 16), differ(q_proj));
  EXPECT_EQ(findings_with(R"([])", 16), differ("lm_head"));
  EXPECT_EQ(findings_with(R"(["lm_head"])", 64),
            Texts{"error config | hf_quant_config.json: quantization.group_size is 64, but NVFP4 "
                  "has blocks of 16; correct it"});
}

TEST(VerifyConfig, a_global_scale_of_compressed_tensors_has_one_dimension) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  const std::string scale = q_proj + ".weight_global_scale";
  model.at(scale).shape = {};
  EXPECT_EQ(findings_of(model),
            Texts{"error wrong-shape | model.safetensors: '" + scale +
                  "': a global scale of compressed-tensors is F32 [1], this is F32 []; give it one "
                  "dimension, or convert the model again"});
}

// Names of tensors that microscale reads by themselves; what it does not read is the description.
TEST(VerifyConfig, methods_whose_tensors_are_decoded_are_said_to_be_checked) {
  for (const std::string method : {"quark", "fp8", "mxfp4"}) {
    SmallModel model = testing::small_llama(method == "fp8" ? Format::mxfp8_e4m3 : Format::mxfp4);
    Json config = Json::parse(model.config);
    config["quantization_config"] = {{"quant_method", method}};
    model.config = config.dump();
    EXPECT_EQ(
        findings_of(model),
        Texts{"warning config-not-checked | config.json: its quantization_config is that of "
              "'" +
              method + "', which is not held against the tensors; codes and scales are checked"});
  }
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
