#include "checkpoint/loader_steps.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/model_builder.hpp"
#include "checkpoint/verify_support.hpp"

namespace microscale {
namespace {

using nlohmann::ordered_json;
using testing::SmallModel;
using testing::Texts;

const std::string down = "model.layers.0.mlp.down_proj";

// Both refuse it, in these words, and write nothing.
void expect_refused(const SmallModel& model, const std::string& words) {
  const testing::TemporaryFolder folder;
  model.write(folder / "in");
  testing::expect_error(ErrorCode::bad_input, words, [&] {
    dequantize_model({.input = folder / "in", .output = folder / "out"});
  });
  QuantizeModelOptions options;
  options.input = folder / "in";
  options.output = folder / "out";
  options.format = Format::mxfp4;
  testing::expect_error(ErrorCode::bad_input, words, [&] { quantize_model(options); });
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

SmallModel with(const std::string& key, const ordered_json& value) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  auto config = ordered_json::parse(model.config);
  config["quantization_config"][key] = value;
  model.config = config.dump();
  return model;
}

ordered_json transform_at(const std::vector<std::string>& locations) {
  ordered_json uses = ordered_json::array();
  for (const std::string& location : locations) {
    uses.push_back({{"targets", {"Linear"}}, {"location", location}, {"inverse", false}});
  }
  return {{"config_groups", {{"R1", {{"type", "hadamard"}, {"apply", uses}}}}}};
}

TEST(LoaderSteps, transforms_of_inputs_are_refused_and_named) {
  for (const std::string location : {"input", "output", "q_attn", "k_cache"}) {
    const SmallModel model = with("transform_config", transform_at({"weight_input", location}));
    EXPECT_EQ(testing::findings_of(model),
              Texts{"warning not-decoded | config.json: transform_config has loaders rotate values "
                    "while the model runs ('R1'), which compressed-tensors and vLLM do and other "
                    "engines may not"});
    expect_refused(model, "transform_config has loaders rotate values");
  }
  expect_refused(with("transform_config", {{"new_form", 1}}), "('transform_config')");
}

TEST(LoaderSteps, transforms_that_are_in_the_weights_are_none) {
  for (const ordered_json& value :
       {transform_at({"weight_input", "weight_output"}), ordered_json::object(), ordered_json()}) {
    const SmallModel model = with("transform_config", value);
    EXPECT_EQ(testing::findings_of(model), Texts());
    const testing::TemporaryFolder folder;
    model.write(folder / "in");
    dequantize_model({.input = folder / "in", .output = folder / "out"});
    EXPECT_TRUE(std::filesystem::exists(folder / "out"));
  }
}

TEST(LoaderSteps, sparse_weights_are_refused) {
  expect_refused(with("sparsity_config", {{"format", "sparse-24-bitmask"}}),
                 "weights are sparse ('sparse-24-bitmask')");
}

// Parts of ModelOpt that the algorithm in config.json does not have, or has.
TEST(LoaderSteps, factors_and_low_rank_parts_are_refused_and_named) {
  struct Case {
    std::string name, algorithm, text;
  };
  for (const auto& [name, algorithm, text] :
       {Case{".pre_quant_scale", "NVFP4_AWQ", "inputs of the layer are to be multiplied by it"},
        Case{".svdquant_lora_a", "NVFP4_SVDQUANT", "a low-rank part of the layer"},
        Case{".weight_quantizer.svdquant_lora_b", "NVFP4_SVDQUANT",
             "a low-rank part of the layer"}}) {
    SmallModel model = testing::small_llama(Format::nvfp4);
    model.add_floats(down + name, {64}, std::vector<float>(64, 1.5f));
    const Texts found = testing::findings_of(model);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(
        found[0].find("error extra-tensor | model.safetensors: '" + down + name + "': " + text), 0u)
        << found[0];
    EXPECT_NE(found[0].find("no loader of this description reads it"), std::string::npos);
    expect_refused(model, text);
    model.config = R"({"model_type": "llama", "quantization_config": {"quant_method": "modelopt",
                       "quant_algo": ")" +
                   algorithm + R"(", "ignore": ["lm_head"]}})";
    const Texts known = testing::findings_of(model);
    EXPECT_EQ(std::count_if(known.begin(), known.end(),
                            [&](const std::string& each) {
                              return each.starts_with("warning not-decoded | model.safetensors: '" +
                                                      down + name);
                            }),
              1);
    expect_refused(model, text);
  }
}

TEST(LoaderSteps, an_order_of_columns_is_none_of_a_block_format) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.add(down + ".weight_g_idx", StoredType::i32, {64}, testing::Bytes(256));
  const Texts found = testing::findings_of(model);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].find("error extra-tensor | model.safetensors: '" + down +
                          ".weight_g_idx': an "
                          "order of the columns"),
            0u);
  expect_refused(model, "an order of the columns, which formats with blocks");
}

}  // namespace
}  // namespace microscale
