#include "checkpoint/plan_notices.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/model_builder.hpp"

namespace microscale {
namespace {

using testing::random_tensor;
using testing::TemporaryFolder;
using testing::TestModel;

TestModel two_layers() {
  TestModel model;
  model.config = R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2})";
  for (const char* layer : {"0", "1"}) {
    model.shards[0]["model.layers." + std::string(layer) + ".self_attn.o_proj.weight"] =
        random_tensor(StoredType::bf16, {64, 64}, 1);
  }
  return model;
}

// Notices of the plan for this model that have `phrase` in them.
std::vector<std::string> notices(const TestModel& model, const std::string& phrase) {
  const TemporaryFolder folder;
  model.write(folder / "in");
  QuantizeModelOptions options;
  options.input = folder / "in";
  options.output = folder / "out";
  options.allow_incomplete = true;  // there is no embedding
  std::vector<std::string> all = plan_quantize_model(options).notices;
  std::erase_if(all, [&](const std::string& notice) { return notice.find(phrase) == notice.npos; });
  return all;
}

TEST(PlanNotices, a_config_that_names_no_model_is_told) {
  const std::string phrase = "no loader knows the model from that";
  TestModel model = two_layers();
  EXPECT_TRUE(notices(model, phrase).empty());
  model.config.clear();
  ASSERT_EQ(notices(model, phrase).size(), 1u);
  EXPECT_EQ(notices(model, phrase)[0].find("there is no config.json: "), 0u);
  model.config = R"({"hidden_size": 64})";
  ASSERT_EQ(notices(model, phrase).size(), 1u);
  EXPECT_EQ(notices(model, phrase)[0].find("config.json names no model"), 0u);
  for (const char* names :
       {R"({"architectures": ["LlamaForCausalLM"]})", R"({"_class_name": "Transformer2DModel"})",
        R"({"text_config": {"model_type": "llama"}})"}) {
    model.config = names;
    EXPECT_TRUE(notices(model, phrase).empty()) << names;
  }
}

TEST(PlanNotices, names_that_wrappers_made_are_told) {
  const std::string phrase = "which a tool of training has put there";
  EXPECT_TRUE(notices(two_layers(), phrase).empty());
  for (const auto& [from, to] :
       {std::pair("model.", "module.model."), std::pair("model.", "base_model.model.model."),
        std::pair("model.", "_orig_mod.model."),
        std::pair("self_attn.", "_fsdp_wrapped_module.self_attn.")}) {
    TestModel model;
    model.config = two_layers().config;
    const TestModel plain = two_layers();
    for (const auto& [name, tensor] : plain.shards[0]) {
      std::string changed = name;
      changed.replace(name.find(from), std::string(from).size(), to);
      model.shards[0][changed] = tensor;
    }
    EXPECT_EQ(notices(model, phrase).size(), 1u) << to;
    model.shards[0]["other.weight"] = random_tensor(StoredType::bf16, {64, 64}, 1);
    const bool every = std::string(to).starts_with("module") || std::string(to).starts_with("base");
    EXPECT_EQ(notices(model, phrase).size(), every ? 0u : 1u) << to;
  }
}

TEST(PlanNotices, weights_that_are_stored_in_parts_are_told) {
  const std::string phrase = "the weight is stored in parts", layer = "model.layers.0.mlp.up_proj";
  for (const char* part : {".weight_v", ".weight_orig", ".parametrizations.weight.original1"}) {
    TestModel model = two_layers();
    model.shards[0][layer + part] = random_tensor(StoredType::bf16, {64, 64}, 1);
    ASSERT_EQ(notices(model, phrase).size(), 1u) << part;
    EXPECT_EQ(notices(model, phrase)[0].find("'" + layer + "' is kept as it is: "), 0u);
    model.shards[0][layer + part] = random_tensor(StoredType::bf16, {64, 8, 8}, 1);
    EXPECT_TRUE(notices(model, phrase).empty()) << "a convolution";
  }
  TestModel model = two_layers();
  model.shards[0]["model.original1"] = random_tensor(StoredType::bf16, {64, 64}, 1);
  EXPECT_TRUE(notices(model, phrase).empty());
}

TEST(PlanNotices, layers_that_config_does_not_count_are_told_unless_they_are_marked) {
  const std::string phrase = "kept as prediction layers";
  TestModel model = two_layers();
  EXPECT_TRUE(notices(model, phrase).empty());
  model.config = R"({"model_type": "llama", "num_hidden_layers": 1})";
  EXPECT_EQ(notices(model, phrase),
            std::vector<std::string>{
                "1 layer of 'model.layers' is kept as prediction layers, because num_hidden_layers "
                "in config.json is 1; if that number is wrong, correct it and convert again"});
  model.shards[0]["model.layers.1.enorm.weight"] = random_tensor(StoredType::bf16, {64}, 2);
  EXPECT_TRUE(notices(model, phrase).empty());
}

TEST(PlanNotices, scales_of_a_cache_without_a_description_are_told) {
  const std::string phrase = "scales of the key-value cache";
  TestModel model = two_layers();
  model.shards[0]["model.layers.0.self_attn.k_scale"] =
      testing::tensor_of(StoredType::f32, {1}, {0.5f});
  model.shards[0]["model.layers.0.self_attn.v_scale"] =
      testing::tensor_of(StoredType::f32, {1}, {0.5f});
  ASSERT_EQ(notices(model, phrase).size(), 1u);
  EXPECT_EQ(notices(model, phrase)[0].find("'model.layers.0.self_attn.k_scale' and 1 more are"),
            0u);
}

TEST(PlanNotices, what_a_calibration_left_is_told) {
  TestModel model = two_layers();
  model.shards[0]["model.layers.0.self_attn.o_proj.input_scale"] =
      testing::tensor_of(StoredType::f32, {1}, {0.5f});
  EXPECT_EQ(notices(model, "left over from a calibration").size(), 1u);
}

}  // namespace
}  // namespace microscale
