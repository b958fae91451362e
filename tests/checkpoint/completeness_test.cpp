#include "checkpoint/completeness.hpp"

#include <gtest/gtest.h>

#include "checkpoint/families.hpp"
#include "checkpoint/model_builder.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::random_tensor;
using testing::TemporaryFolder;
using testing::TestModel;
using Texts = std::vector<std::string>;

const Texts attention{"q_proj", "k_proj", "v_proj", "o_proj"};
const Texts gated{"gate_proj", "up_proj", "down_proj"};

/// A model of some layers, dense or with experts.
TestModel model_of(int layers, int experts = 0) {
  TestModel model;
  testing::TestTensors& tensors = model.shards[0];
  const auto weight = [&](const std::string& module) {
    tensors[module + ".weight"] = random_tensor(StoredType::bf16, {64, 64}, 1);
  };
  weight("model.embed_tokens");
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    for (const std::string& name : attention) weight(layer + "self_attn." + name);
    tensors[layer + "input_layernorm.weight"] = random_tensor(StoredType::bf16, {64}, 2);
    if (experts == 0) {
      for (const std::string& name : gated) weight(layer + "mlp." + name);
      continue;
    }
    weight(layer + "mlp.gate");
    for (int e = 0; e < experts; ++e) {
      for (const std::string& name : gated) {
        weight(layer + "mlp.experts." + std::to_string(e) + "." + name);
      }
    }
  }
  model.config = R"({"model_type": "qwen3_moe", "num_hidden_layers": )" + std::to_string(layers) +
                 R"(, "num_experts": )" + std::to_string(experts) + "}";
  return model;
}

void remove(TestModel& model, const std::string& part) {
  for (testing::TestTensors& shard : model.shards) {
    std::erase_if(shard,
                  [&](const auto& entry) { return entry.first.find(part) != std::string::npos; });
  }
}

Texts gaps_of(const TestModel& model) {
  TemporaryFolder folder;
  model.write(folder.path());
  Texts texts;
  for (const Gap& gap : find_gaps(take(open_model_folder(folder.path())))) {
    texts.push_back(std::string(gap.rule) + " " + gap.message);
  }
  return texts;
}

TEST(Completeness, whole_models_have_no_gaps) {
  EXPECT_EQ(gaps_of(model_of(3)), Texts());
  EXPECT_EQ(gaps_of(model_of(2, 4)), Texts());
}

TEST(Completeness, layers_are_counted_and_held_against_the_config) {
  TestModel model = model_of(4);
  remove(model, "layers.1.");
  EXPECT_EQ(gaps_of(model), Texts{"layers-missing of 4 layers of 'model.layers' 1 is missing: 1"});
  remove(model, "layers.3.");
  EXPECT_EQ(gaps_of(model),
            Texts{"layers-missing of 4 layers of 'model.layers' 2 are missing: 1, 3"});
  model.config = "{}";
  EXPECT_EQ(gaps_of(model), Texts{"layers-missing of 3 layers of 'model.layers' 1 is missing: 1"});
  model.config = R"({"block_configs": [], "num_hidden_layers": 4})";
  EXPECT_EQ(gaps_of(model), Texts());
}

TEST(Completeness, partners_are_missed_where_layers_elsewhere_have_them) {
  TestModel model = model_of(2);
  remove(model, "layers.1.self_attn.o_proj");
  EXPECT_EQ(gaps_of(model),
            Texts{"partner-missing 'model.layers.1.self_attn.o_proj' is missing, to which "
                  "'model.layers.1.self_attn.q_proj' belongs"});
  remove(model, "layers.0.self_attn.o_proj");
  EXPECT_EQ(gaps_of(model), Texts()) << "of that kind all layers are alike";
}

TEST(Completeness, some_partners_are_missed_anywhere) {
  for (const auto& [lost, kept] : {std::pair("k_proj", "q_proj"), std::pair("v_proj", "k_proj"),
                                   std::pair("up_proj", "gate_proj")}) {
    TestModel model = model_of(1);
    remove(model, lost);
    const Texts gaps = gaps_of(model);
    ASSERT_EQ(gaps.size(), 1u) << lost;
    EXPECT_NE(gaps[0].find(lost), std::string::npos) << gaps[0];
    EXPECT_NE(gaps[0].find(kept), std::string::npos) << gaps[0];
  }
  TestModel shared = model_of(1);
  remove(shared, "k_proj");
  remove(shared, "v_proj");
  shared.config = R"({"num_kv_shared_layers": 1})";
  EXPECT_EQ(gaps_of(shared), Texts());
}

TEST(Completeness, experts_are_counted_and_so_are_their_parts) {
  TestModel model = model_of(2, 4);
  remove(model, "layers.0.mlp.experts.3.");
  remove(model, "layers.1.mlp.experts.1.up_proj");
  EXPECT_EQ(gaps_of(model),
            (Texts{"experts-missing of 4 experts with 3 weights each, 3 weights are missing, first "
                   "'model.layers.0.mlp.experts.3.down_proj'",
                   "experts-missing of 4 experts with 3 weights each, 1 weight is missing, first "
                   "'model.layers.1.mlp.experts.1.up_proj'"}));
  model = model_of(2, 4);
  remove(model, "layers.1.mlp.experts.");
  EXPECT_EQ(gaps_of(model),
            Texts{"partner-missing 'model.layers.1.mlp.experts' is missing, to which "
                  "'model.layers.1.mlp.gate' belongs"});
  model = model_of(1, 2);
  remove(model, "gate_proj");
  remove(model, "up_proj");
  EXPECT_EQ(gaps_of(model), Texts()) << "experts of one matrix each";
  model = model_of(1, 2);
  remove(model, "down_proj");
  EXPECT_EQ(gaps_of(model).size(), 1u);
}

TEST(Completeness, files_of_a_numbered_set_are_counted) {
  TestModel model = model_of(3);
  model.shards.resize(3);
  for (int i = 1; i < 3; ++i) {
    auto& first = model.shards[0];
    for (auto it = first.begin(); it != first.end();) {
      const bool here = it->first.find("layers." + std::to_string(i)) != std::string::npos;
      if (here) model.shards[static_cast<std::size_t>(i)].insert(*it);
      it = here ? first.erase(it) : std::next(it);
    }
  }
  TemporaryFolder folder;
  model.config = "{}";
  model.write(folder.path());
  EXPECT_TRUE(find_gaps(take(open_model_folder(folder.path()))).empty());
  // The index forgets the last file, which is there; then it is not.
  ShardIndex index;
  for (int i = 0; i < 2; ++i) {
    for (const auto& entry : model.shards[static_cast<std::size_t>(i)]) {
      index.weight_map[entry.first] =
          "model-0000" + std::to_string(i + 1) + "-of-00003.safetensors";
    }
  }
  testing::write_file(folder / shard_index_name, write_shard_index(index));
  const auto messages = [&] {
    return summary_of(find_gaps(take(open_model_folder(folder.path()))));
  };
  EXPECT_EQ(messages(),
            "'model-00003-of-00003.safetensors' is one of the model's 3 files by its name, but "
            "'model.safetensors.index.json' does not name it");
  fs::remove(folder / "model-00003-of-00003.safetensors");
  EXPECT_EQ(messages(), "of the 3 files model-* 1 is missing: 3");
  EXPECT_EQ(find_gaps(take(open_model_folder(folder / "model-00001-of-00003.safetensors"))).size(),
            0u);
}

TEST(Completeness, quantize_refuses_and_goes_on_where_told) {
  TemporaryFolder folder;
  TestModel model = model_of(2);
  remove(model, "layers.1.mlp.up_proj");
  model.write(folder / "in");
  QuantizeModelOptions options;
  options.input = folder / "in";
  options.output = folder / "out";
  testing::expect_error(ErrorCode::bad_input,
                        "is not complete: 'model.layers.1.mlp.up_proj' is missing",
                        [&] { quantize_model(options); });
  testing::expect_error(ErrorCode::bad_input, "pass --allow-incomplete",
                        [&] { plan_quantize_model(options); });
  options.allow_incomplete = true;
  const ConversionPlan plan = quantize_model(options);
  ASSERT_FALSE(plan.notices.empty());
  EXPECT_EQ(plan.notices[0].find("not complete: 'model.layers.1.mlp.up_proj' is missing"), 0u);
  const auto problems = verify_model({.input = folder / "out", .threads = 1});
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("'model.layers.1.mlp.up_proj' is missing"), std::string::npos);
}

// Every family is whole, as its real models are.
TEST(Completeness, no_family_of_models_has_gaps) {
  for (const std::string& name : testing::family_names()) {
    const testing::Family family = testing::family_called(name);
    TestModel model;
    model.config = family.config;
    for (const testing::FamilyTensor& tensor : family.tensors) {
      testing::TestTensor& value = model.shards[0][tensor.name];
      value.type = tensor.type;
      value.shape = tensor.shape;
      value.bytes.resize(stored_bytes(tensor.type, tensor.shape).value());
    }
    EXPECT_EQ(gaps_of(model), Texts()) << name;
  }
}

}  // namespace
}  // namespace microscale
