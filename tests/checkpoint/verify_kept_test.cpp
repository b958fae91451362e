#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/verify_support.hpp"

namespace microscale {
namespace {

using testing::findings_of;
using testing::SmallModel;
using testing::Texts;
using Json = nlohmann::ordered_json;

const std::string layer = "model.layers.0.";

/// A quantized Llama with one module more; `extra` goes into config.json, the ignore list stays.
SmallModel with_module(const std::string& module, const Json& extra = Json::object()) {
  SmallModel model = testing::small_llama(Format::mxfp4);
  model.add_quantized(module, Format::mxfp4, 32, 64, testing::gaussian(32 * 64, 99));
  Json config = Json::parse(model.config);
  config.update(extra);
  model.config = config.dump();
  return model;
}

TEST(VerifyKept, embeddings_and_norms_are_not_decoded) {
  const Texts embedding = findings_of(with_module("model.embed_positions"));
  EXPECT_EQ(
      embedding,
      Texts{"error quantized-embedding | model.safetensors: 'model.embed_positions': an "
            "embedding or a norm is quantized, which loaders do not decode; convert the model "
            "again without it"});
  const Texts norm = findings_of(with_module(layer + "input_layernorm"));
  ASSERT_EQ(norm.size(), 1u);
  EXPECT_TRUE(norm[0].starts_with("error quantized-embedding | model.safetensors: '" + layer +
                                  "input_layernorm': an embedding or a norm is quantized"))
      << norm[0];
}

TEST(VerifyKept, routers_and_drafts_are_better_left_dense) {
  for (const auto& [module, rule] :
       {std::pair(layer + "mlp.gate", "quantized-router"),
        std::pair(layer + "block_sparse_moe.router.layer", "quantized-router"),
        std::pair(layer + "mlp.shared_expert_gate", "quantized-router"),
        std::pair(std::string("mtp.layers.0.eh_proj"), "quantized-draft")}) {
    const Texts texts = findings_of(with_module(module));
    ASSERT_EQ(texts.size(), 1u) << module;
    EXPECT_TRUE(texts[0].starts_with(std::string("warning ") + rule + " | model.safetensors: '" +
                                     module + "': "))
        << texts[0];
  }
  const Json draft = {{"num_hidden_layers", 1}, {"num_nextn_predict_layers", 1}};
  Texts numbered = findings_of(with_module("model.layers.1.mlp.down_proj", draft));
  // The layer has nothing else: see completeness_test.cpp.
  std::erase_if(numbered, [](const std::string& text) { return text.starts_with("error "); });
  ASSERT_EQ(numbered.size(), 1u);
  EXPECT_TRUE(numbered[0].starts_with("warning quantized-draft")) << numbered[0];
}

TEST(VerifyKept, a_tied_head_is_not_used) {
  SmallModel model = with_module("lm_head", {{"tie_word_embeddings", true}});
  Json config = Json::parse(model.config);
  config["quantization_config"]["ignore"] = Json::array();
  model.remove("lm_head.weight");
  model.config = config.dump();
  const Texts texts = findings_of(model);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_TRUE(texts[0].starts_with("warning quantized-tied-head | model.safetensors: 'lm_head': "))
      << texts[0];
  config["tie_word_embeddings"] = false;
  model.config = config.dump();
  EXPECT_EQ(findings_of(model), Texts());
}

TEST(VerifyKept, ignoring_the_fused_name_ignores_its_parts) {
  for (const auto& [entry, module] :
       {std::pair(layer + "self_attn.qkv_proj", layer + "self_attn.k_proj"),
        std::pair(std::string("re:.*gate_up_proj$"), layer + "mlp.gate_proj")}) {
    SmallModel model = testing::small_llama(Format::nvfp4);
    Json config = Json::parse(model.config);
    config["quantization_config"]["ignore"].push_back(entry);
    model.config = config.dump();
    const std::string fused = module.substr(0, module.rfind('.')) +
                              (module.ends_with("k_proj") ? ".qkv_proj" : ".gate_up_proj");
    EXPECT_EQ(findings_of(model),
              Texts{"error fused-name-ignored | model.safetensors: '" + module +
                    "': the module is quantized, but the ignore list takes '" + fused +
                    "', the layer that engines make of it and its kin, so they will not find its "
                    "weight; take that off the list"});
  }
}

TEST(VerifyKept, names_what_a_calibration_left_behind) {
  for (const std::string name :
       {"mlp.down_proj.input_quantizer._amax", "self_attn.o_proj.input_scale",
        "self_attn.o_proj.weight_zero_point", "self_attn.k_bmm_quantizer._amax"}) {
    SmallModel model = testing::small_llama(Format::mxfp4);
    model.add_floats(layer + name, {1}, {1});
    EXPECT_EQ(findings_of(model),
              Texts{"error leftover-buffer | model.safetensors: '" + layer + name +
                    "': left over from a calibration and no part of the model, so strict loaders "
                    "refuse it; `repair` takes it out"});
  }
}

// As a converter leaves it that copied the blocks of a format it does not know.
TEST(VerifyKept, bytes_under_the_name_of_a_weight_are_named) {
  for (const char* name : {"model.layers.0.mlp.extra_proj.weight", "model.embed_tokens.weight"}) {
    SmallModel model = testing::small_llama(Format::mxfp4);
    model.remove(name);
    model.add(name, StoredType::u8, {2112}, testing::Bytes(2112, 7));
    const Texts found = findings_of(model);
    ASSERT_EQ(found.size(), 1u) << name;
    EXPECT_TRUE(found[0].starts_with(std::string("error unknown-format | model.safetensors: '") +
                                     name + "': it is U8 [2112], which no loader takes"))
        << found[0];
  }
}

}  // namespace
}  // namespace microscale
