#include <gtest/gtest.h>

#include "checkpoint/verify_support.hpp"

namespace microscale {
namespace {

using testing::bytes_of;
using testing::findings_of;
using testing::SmallModel;
using testing::Texts;

const std::string attention = "model.layers.0.self_attn.";

TEST(VerifyGroups, fused_layers_must_share_the_global_scale) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.at(attention + "v_proj.weight_global_scale").bytes = bytes_of(16384.0f);
  model.at(attention + "q_proj.weight_global_scale").bytes = bytes_of(20480.0f);
  model.at(attention + "k_proj.weight_global_scale").bytes = bytes_of(20480.0f);
  EXPECT_EQ(
      findings_of(model),
      Texts{
          "error fused-global-scale | model.safetensors: 'model.layers.0.self_attn.v_proj': its "
          "global scale is 16384 but that of 'model.layers.0.self_attn.k_proj', which loaders fuse "
          "with it, is 20480; they keep one for both, so quantize the model again with a shared "
          "scale"});
}

TEST(VerifyGroups, fused_layers_must_be_quantized_all_or_none) {
  SmallModel model = testing::small_llama(Format::mxfp4);
  const std::string up = "model.layers.0.mlp.up_proj";
  model.remove(up + ".weight_packed");
  model.remove(up + ".weight_scale");
  model.add_floats(up + ".weight", {64, 64}, testing::gaussian(4096, 1));
  model.config =
      with_quantization_config(R"({"model_type": "a"})", Format::mxfp4, {"lm_head", up}).value();
  EXPECT_EQ(
      findings_of(model),
      Texts{"error fused-formats | model.safetensors: 'model.layers.0.mlp.up_proj': it is not "
            "quantized "
            "but 'model.layers.0.mlp.gate_proj', which loaders fuse with it, is mxfp4; quantize or "
            "ignore both alike"});
}

TEST(VerifyGroups, bert_is_fused_too) {
  SmallModel model;
  const std::string self = "encoder.layer.0.attention.self.";
  model.add_quantized(self + "query", Format::nvfp4, 16, 16, testing::gaussian(256, 1), 0x1p-15f);
  model.add_quantized(self + "key", Format::nvfp4, 16, 16, testing::gaussian(256, 2), 0x1p-15f);
  model.add_quantized(self + "value", Format::nvfp4, 16, 16, testing::gaussian(256, 3), 0x1p-14f);
  model.config = with_quantization_config(R"({"model_type": "a"})", Format::nvfp4, {}).value();
  EXPECT_EQ(
      findings_of(model),
      Texts{"error fused-global-scale | model.safetensors: 'encoder.layer.0.attention.self.value': "
            "its "
            "global scale is 16384 but that of 'encoder.layer.0.attention.self.key', which loaders "
            "fuse with it, is 32768; they keep one for both, so quantize the model again with a "
            "shared scale"});
}

SmallModel mixture(int experts) {
  SmallModel model;
  for (int e = 0; e < experts; ++e) {
    for (const std::string part : {"gate_proj", "up_proj", "down_proj"}) {
      const std::string module = "model.layers.3.mlp.experts." + std::to_string(e) + "." + part;
      model.add_quantized(module, Format::nvfp4, 16, 32, testing::gaussian(512, 5), 0x1p-15f);
    }
  }
  model.config = with_quantization_config(R"({"model_type": "a"})", Format::nvfp4, {}).value();
  return model;
}

void remove_module(SmallModel& model, const std::string& module) {
  for (const char* part : {".weight_packed", ".weight_scale", ".weight_global_scale"}) {
    model.remove(module + part);
  }
}

TEST(VerifyGroups, all_experts_must_be_there) {
  SmallModel model = mixture(4);
  EXPECT_EQ(findings_of(model), Texts());
  const std::string experts = "model.layers.3.mlp.experts.";
  for (const char* part : {"gate_proj", "up_proj", "down_proj"})
    remove_module(model, experts + "1." + part);
  remove_module(model, experts + "2.down_proj");
  EXPECT_EQ(
      findings_of(model),
      Texts{"error experts-missing | of 4 experts with 3 weights each, "
            "4 "
            "weights are missing, first 'model.layers.3.mlp.experts.1.down_proj'; download or "
            "convert "
            "the model again"});
}

TEST(VerifyGroups, as_many_experts_as_the_config_promises_must_be_there) {
  SmallModel model = mixture(2);
  model.config = with_quantization_config(
                     R"({"model_type": "a", "text_config": {"num_experts": 3}})", Format::nvfp4, {})
                     .value();
  EXPECT_EQ(
      findings_of(model),
      Texts{"error experts-missing | of 3 experts with 3 weights each, "
            "3 "
            "weights are missing, first 'model.layers.3.mlp.experts.2.down_proj'; download or "
            "convert "
            "the model again"});
}

TEST(VerifyGroups, a_hole_of_any_size_costs_no_time) {
  SmallModel model = mixture(1);
  model.add_quantized("model.layers.3.mlp.experts.999999.down_proj", Format::nvfp4, 16, 32,
                      testing::gaussian(512, 5), 0x1p-15f);
  const Texts texts = findings_of(model);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_NE(texts[0].find("of 1000000 experts with 3 weights each, 2999996 weights are missing"),
            std::string::npos)
      << texts[0];
}

TEST(VerifyGroups, all_experts_must_have_the_same_format) {
  SmallModel model = mixture(2);
  const std::string down = "model.layers.3.mlp.experts.1.down_proj";
  remove_module(model, down);
  model.add_floats(down + ".weight", {16, 32}, testing::gaussian(512, 5));
  model.config = with_quantization_config(R"({"model_type": "a"})", Format::nvfp4, {down}).value();
  EXPECT_EQ(
      findings_of(model),
      Texts{"error expert-formats | model.safetensors: '" + down +
            "': it is not quantized but 'model.layers.3.mlp.experts.0.down_proj' is nvfp4; loaders "
            "need all experts of a layer alike, so convert the model again"});
}

TEST(VerifyGroups, activation_scales_must_be_numbers_and_shared) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  for (const std::string& name : testing::attention_layers) {
    model.add_floats(attention + name + ".input_global_scale", {1}, {3.0f});
  }
  model.at(attention + "v_proj.input_global_scale").bytes = bytes_of(4.0f);
  model.at(attention + "k_proj.input_global_scale").bytes = bytes_of(INFINITY);
  Texts texts = findings_of(model);
  std::erase_if(texts, [](const std::string& text) {
    return text.find("extra-tensor") != std::string::npos;
  });
  EXPECT_EQ(
      texts,
      (Texts{
          "error input-scale-value | model.safetensors: "
          "'model.layers.0.self_attn.k_proj.input_global_scale': the activation scale is inf, "
          "which "
          "must be finite and positive; calibrate the model again",
          "error fused-input-scale | model.safetensors: 'model.layers.0.self_attn.q_proj': its "
          "activation scale is 3 but that of 'model.layers.0.self_attn.k_proj', which loaders fuse "
          "with it, is inf; give both the more cautious one",
          "error fused-input-scale | model.safetensors: 'model.layers.0.self_attn.v_proj': its "
          "activation scale is 4 but that of 'model.layers.0.self_attn.k_proj', which loaders fuse "
          "with it, is inf; give both the more cautious one"}));
}

}  // namespace
}  // namespace microscale
