#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/verify_support.hpp"

namespace microscale {
namespace {

using testing::bytes_of;
using testing::findings_of;
using testing::SmallModel;
using testing::Texts;
using Json = nlohmann::ordered_json;

const std::string attention = "model.layers.0.self_attn.";

/// A quantized Llama whose config describes an FP8 cache.
SmallModel with_cache(const std::string& strategy = "tensor", bool dynamic = false) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  Json config = Json::parse(model.config);
  config["quantization_config"]["kv_cache_scheme"] = {
      {"num_bits", 8}, {"type", "float"}, {"strategy", strategy}, {"dynamic", dynamic}};
  model.config = config.dump();
  return model;
}

void add_scale(SmallModel& model, const std::string& name, float value) {
  model.add(name, StoredType::f32, {1}, bytes_of(value));
}

TEST(VerifyKvCache, good_scales_are_no_findings) {
  for (const auto& [k, v] :
       {std::pair("k_scale", "v_scale"), std::pair("k_proj.k_scale", "v_proj.v_scale"),
        std::pair("attn.k_scale", "attn.v_scale"), std::pair("k_global_scale", "v_global_scale"),
        std::pair("k_proj.output_scale", "v_proj.output_scale")}) {
    SmallModel model = with_cache();
    add_scale(model, attention + k, 0.03f);
    model.add(attention + v, StoredType::bf16, {}, {0x80, 0x3D});  // 0.0625
    EXPECT_EQ(findings_of(model), Texts()) << k;
  }
}

TEST(VerifyKvCache, scales_must_be_finite_and_positive) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::string name : {"k_scale", "k_proj.k_scale", "k_proj.output_scale"}) {
    for (const auto& [value, text] : {std::pair(nan, "nan"), std::pair(infinity, "inf"),
                                      std::pair(-1.0f, "-1"), std::pair(0.0f, "0")}) {
      SmallModel model = with_cache();
      add_scale(model, attention + name, value);
      std::string other = name;
      for (char& c : other) c = c == 'k' ? 'v' : c;
      add_scale(model, attention + other, 1.0f);
      EXPECT_EQ(findings_of(model).at(0),
                "error kv-scale-value | model.safetensors: '" + attention + name +
                    "': the cache's scale is " + text +
                    ", which must be finite and positive; calibrate the cache again");
    }
  }
}

TEST(VerifyKvCache, a_scale_is_one_number) {
  SmallModel model = with_cache();
  model.add_floats(attention + "k_scale", {128}, std::vector<float>(128, 0.5f));
  add_scale(model, attention + "v_scale", 0.5f);
  EXPECT_EQ(findings_of(model),
            Texts{"error kv-scale-shape | model.safetensors: '" + attention +
                  "k_scale': a cache's scale has one element, this is F32 [128]; calibrate the "
                  "cache again"});
  model.add(attention + "k_scale", StoredType::u8, {1}, {127});
  EXPECT_EQ(findings_of(model),
            Texts{"error kv-scale-type | model.safetensors: '" + attention +
                  "k_scale': a cache's scale is F32, F16 or BF16, this is U8; calibrate the cache "
                  "again"});
}

TEST(VerifyKvCache, a_scale_for_each_head_where_the_scheme_says_so) {
  SmallModel model = with_cache("attn_head");
  model.add_floats(attention + "k_scale", {8, 1, 1}, std::vector<float>(8, 0.5f));
  model.add_floats(attention + "v_scale", {8, 1, 1}, {1, 1, 1, 1, 1, -2, 1, 1});
  EXPECT_EQ(findings_of(model),
            Texts{"error kv-scale-value | model.safetensors: '" + attention +
                  "v_scale': the cache's scale of head 5 is -2, which must be finite and positive; "
                  "calibrate the cache again"});
}

TEST(VerifyKvCache, a_pair_should_be_whole) {
  SmallModel model = with_cache();
  add_scale(model, attention + "v_scale", 0.5f);
  EXPECT_EQ(
      findings_of(model),
      Texts{"warning kv-scale-alone | model.safetensors: '" + attention +
            "v_scale': the scale of the keys is missing, and loaders take 1 for it; calibrate "
            "the cache again"});
}

TEST(VerifyKvCache, scales_and_scheme_belong_together) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  add_scale(model, attention + "k_scale", 0.5f);
  add_scale(model, attention + "v_scale", 0.5f);
  EXPECT_EQ(findings_of(model),
            Texts{"warning kv-scales-unused | model.safetensors: '" + attention +
                  "k_scale': scales of a key-value cache are stored, but config.json has no "
                  "kv_cache_scheme, so engines do not use them unless they are told to; describe "
                  "the cache or remove them"});
  EXPECT_EQ(findings_of(with_cache()),
            Texts{"warning kv-scales-missing | config.json: it describes a key-value cache with "
                  "stored scales, but the model has none, and loaders take 1 for them; calibrate "
                  "the cache or remove the description"});
  EXPECT_EQ(findings_of(with_cache("tensor", true)), Texts());
}

TEST(VerifyKvCache, a_layer_without_scales_among_others_is_named) {
  SmallModel model = with_cache();
  add_scale(model, attention + "k_scale", 0.5f);
  add_scale(model, attention + "v_scale", 0.5f);
  for (const char* part : {"q", "k", "v"}) {
    for (const char* layer : {"model.layers.1.self_attn.", "vision.blocks.0.attn."})
      model.add_floats(std::string(layer) + part + "_proj.weight", {2, 2}, {1, 2, 3, 4});
  }
  Json config = Json::parse(model.config);
  config["model_type"] = "small";
  config["quantization_config"]["ignore"].push_back("re:model.layers.1.*");
  config["quantization_config"]["ignore"].push_back("re:vision.*");
  model.config = config.dump();
  EXPECT_EQ(findings_of(model),
            Texts{"warning kv-scales-missing | 'model.layers.1.self_attn': its cache has no scale "
                  "although others have; loaders take 1 for it, so calibrate the cache again"});
}

TEST(VerifyKvCache, a_global_scale_upside_down_is_suspected) {
  SmallModel model = with_cache();
  add_scale(model, attention + "k_global_scale", 268.8f);  // 2688 / 10
  add_scale(model, attention + "v_global_scale", 10 / 2688.0f);
  EXPECT_EQ(findings_of(model),
            Texts{"warning kv-scale-reciprocal | model.safetensors: '" + attention +
                  "k_global_scale': the global scale 268.8 stands for magnitudes of 722534.4; a "
                  "cache's is amax / 2688, and this may be its reciprocal"});
}

}  // namespace
}  // namespace microscale
