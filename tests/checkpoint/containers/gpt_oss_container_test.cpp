#include "checkpoint/containers/gpt_oss_container.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;

TEST(GptOssContainer, holds_mxfp4_alone) {
  const GptOssContainer container;
  QuantizeModelOptions options;
  options.format = Format::mxfp4;
  EXPECT_TRUE(succeeds(container.check(options)));
  options.use = {{"*.down_proj", WeightFormat::mxfp8}};
  EXPECT_TRUE(fails_with(container.check(options), "no --use"));
  options.use = {};
  options.activations = Activations::dynamic;
  EXPECT_TRUE(fails_with(container.check(options), "--activations"));
  options.activations = Activations::dense;
  options.format = Format::nvfp4;
  EXPECT_TRUE(fails_with(container.check(options), "--format mxfp4"));
}

TEST(GptOssContainer, has_the_shapes_of_the_published_models) {
  const LayerTensors layer = GptOssContainer().experts(
      WeightFormat::mxfp4, "model.layers.0.mlp.experts.gate_up_proj", 32, 5760, 2880);
  EXPECT_EQ(layer.codes.name, "model.layers.0.mlp.experts.gate_up_proj_blocks");
  EXPECT_EQ(layer.codes.shape, (std::vector<std::int64_t>{32, 5760, 90, 16}));
  EXPECT_EQ(layer.scales.name, "model.layers.0.mlp.experts.gate_up_proj_scales");
  EXPECT_EQ(layer.scales.shape, (std::vector<std::int64_t>{32, 5760, 90}));
  EXPECT_EQ(layer.codes.type, StoredType::u8);
  EXPECT_EQ(layer.scales.type, StoredType::u8);
  EXPECT_TRUE(layer.global_scale.name.empty());
}

TEST(GptOssContainer, describes_itself_as_the_published_models_do) {
  const auto description = GptOssContainer().describe(
      R"({"model_type": "gpt_oss", "quantization_config": {"quant_method": "fp8"}})", {}, {}, {});
  ASSERT_TRUE(succeeds(description));
  const auto config = nlohmann::json::parse(description.value().config);
  EXPECT_EQ(config["quantization_config"]["quant_method"], "mxfp4");
  EXPECT_EQ(config["quantization_config"]["modules_to_not_convert"],
            nlohmann::json({"model.layers.*.self_attn", "model.layers.*.mlp.router",
                            "model.embed_tokens", "lm_head"}));
  EXPECT_EQ(config["model_type"], "gpt_oss");
}

}  // namespace
}  // namespace microscale
