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
    for (const char* norm :
         {"input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm"}) {
      tensors[layer + norm + ".weight"] = random_tensor(StoredType::bf16, {64}, 2);
    }
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
  EXPECT_EQ(gaps_of(model),
            Texts{"part-missing no layer of 'model.layers' has 'self_attn.o_proj', which models of "
                  "type 'qwen3_moe' have"});
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
  // TimesFM has no up_proj.
  TestModel series = model_of(1);
  remove(series, "up_proj");
  series.config = R"({"model_type": "timesfm"})";
  EXPECT_EQ(gaps_of(series), Texts());
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
  testing::expect_error(ErrorCode::bad_input, "quantize --allow-incomplete",
                        [&] { plan_quantize_model(options); });
  options.allow_incomplete = true;
  const ConversionPlan plan = quantize_model(options);
  ASSERT_FALSE(plan.notices.empty());
  EXPECT_EQ(plan.notices[0].find("not complete: 'model.layers.1.mlp.up_proj' is missing"), 0u);
  const auto problems = verify_model({.input = folder / "out", .threads = 1});
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("'model.layers.1.mlp.up_proj' is missing"), std::string::npos);
}

// A language model of which only what is beside the matrices is of interest.
TestModel language_model(int layers) {
  TestModel model = model_of(layers);
  testing::TestTensors& tensors = model.shards[0];
  const auto vector = [&](const std::string& name) {
    tensors[name] = random_tensor(StoredType::bf16, {64}, 3);
  };
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    for (const std::string name : {"post_attention_layernorm.weight", "self_attn.q_norm.weight",
                                   "self_attn.q_proj.bias", "self_attn.k_proj.bias"}) {
      vector(layer + name);
    }
  }
  vector("model.norm.weight");
  tensors["lm_head.weight"] = random_tensor(StoredType::bf16, {64, 64}, 4);
  model.config = R"({"architectures": ["Qwen2ForCausalLM"], "hidden_size": 64, "vocab_size": 64,
                     "tie_word_embeddings": false})";
  return model;
}

TEST(Completeness, norms_and_biases_that_other_layers_have_are_missed) {
  EXPECT_EQ(gaps_of(language_model(2)), Texts());
  for (const int layers : {2, 3, 5}) {
    for (const std::string lost :
         {"input_layernorm.weight", "post_attention_layernorm.weight", "self_attn.q_norm.weight",
          "self_attn.q_proj.bias", "self_attn.k_proj.bias"}) {
      for (const std::string at : {"0", "1"}) {
        TestModel model = language_model(layers);
        const std::string name = "model.layers." + at + "." + lost;
        remove(model, name);
        EXPECT_EQ(
            gaps_of(model),
            Texts{"part-missing '" + name + "' is missing, which " + std::to_string(layers - 1) +
                  " of " + std::to_string(layers) + " layers with the same matrices have"});
      }
    }
  }
}

// Layers of two kinds, and what some families have in the first layer alone or not at all.
TEST(Completeness, layers_of_another_kind_may_have_other_norms) {
  TestModel model = language_model(4);
  for (const std::string at : {"1", "3"}) {
    remove(model, "layers." + at + ".self_attn.q_norm");
    model.shards[0]["model.layers." + at + ".self_attn.gate.weight"] =
        random_tensor(StoredType::bf16, {64, 64}, 5);
  }
  EXPECT_EQ(gaps_of(model), Texts());
  model = language_model(3);
  model.shards[0]["model.layers.0.pre_ln.weight"] = random_tensor(StoredType::bf16, {64}, 5);
  model.shards[0]["model.layers.1.attn_norm.weight"] = random_tensor(StoredType::bf16, {64}, 5);
  model.shards[0]["model.layers.2.attn_norm.weight"] = random_tensor(StoredType::bf16, {64}, 5);
  EXPECT_EQ(gaps_of(model), Texts());
  model.shards[0]["model.layers.1.self_attn.sinks"] = random_tensor(StoredType::bf16, {64}, 5);
  EXPECT_EQ(gaps_of(model), Texts()) << "neither a norm nor a bias";
}

TEST(Completeness, norms_of_layers_that_config_does_not_count_are_there) {
  TestModel model = language_model(3);
  model.config = R"({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2})";
  EXPECT_EQ(gaps_of(model), Texts());
}

TEST(Completeness, embedding_head_and_final_norm_are_missed) {
  TestModel model = language_model(2);
  remove(model, "embed_tokens");
  EXPECT_EQ(gaps_of(model),
            Texts{"part-missing the embedding before the layers of 'model.layers' is "
                  "missing"});
  model.config = R"({"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": true})";
  EXPECT_EQ(gaps_of(model), Texts()) << "the head is the embedding";
  model = language_model(2);
  remove(model, "lm_head");
  EXPECT_EQ(gaps_of(model),
            Texts{"part-missing the output head is missing, and config.json does not tie it to the "
                  "embedding (tie_word_embeddings is false)"});
  model.config = R"({"architectures": ["LlamaForCausalLM"]})";
  EXPECT_EQ(gaps_of(model), Texts()) << "it may be tied";
  model = language_model(2);
  remove(model, "model.norm");
  EXPECT_EQ(gaps_of(model),
            Texts{"part-missing the norm after the layers of 'model.layers' is missing"});
  remove(model, "input_layernorm");
  EXPECT_EQ(gaps_of(model), Texts()) << "norms after what they belong to need no last one";
}

TEST(Completeness, sizes_that_are_not_those_of_the_config_are_doubts) {
  TestModel model = language_model(3);
  testing::TestTensors& tensors = model.shards[0];
  tensors["model.embed_tokens.weight"] = random_tensor(StoredType::bf16, {48, 64}, 1);
  tensors["model.norm.weight"] = random_tensor(StoredType::bf16, {32}, 1);
  tensors["model.layers.1.input_layernorm.weight"] = random_tensor(StoredType::bf16, {32}, 1);
  EXPECT_EQ(gaps_of(model),
            (Texts{"part-size 'model.layers.1.input_layernorm.weight' has 32 elements, in other "
                   "layers it has 64, the hidden_size of config.json",
                   "part-size 'model.embed_tokens.weight' has 48 rows, but vocab_size of "
                   "config.json is 64",
                   "part-size 'model.norm.weight' has 32 elements, but hidden_size of config.json "
                   "is 64"}));
  TemporaryFolder folder;
  model.write(folder / "in");
  const VerifyReport report = verify_checkpoint(folder / "in");
  EXPECT_EQ(report.errors(), 0);
  EXPECT_EQ(report.warnings(), 3);
  QuantizeModelOptions options;
  options.input = folder / "in";
  options.output = folder / "out";
  const ConversionPlan plan = plan_quantize_model(options);
  EXPECT_EQ(std::count_if(plan.notices.begin(), plan.notices.end(),
                          [](const std::string& notice) {
                            return notice.starts_with("maybe not complete: ");
                          }),
            3);
  model = model_of(1, 4);
  model.shards[0]["model.layers.0.mlp.gate.weight"] = random_tensor(StoredType::bf16, {3, 64}, 1);
  EXPECT_EQ(gaps_of(model), Texts{"part-size 'model.layers.0.mlp.gate.weight' has 3 rows, but the "
                                  "number of experts of config.json is 4"});
}

TEST(Completeness, fused_experts_have_all_their_parts_and_experts) {
  const auto fused = [](bool biases) {
    TestModel model = model_of(2, 4);
    remove(model, ".experts.");
    for (const std::string at : {"0", "1"}) {
      const std::string experts = "model.layers." + at + ".mlp.experts.";
      model.shards[0][experts + "gate_up_proj"] = random_tensor(StoredType::bf16, {4, 64, 128}, 1);
      model.shards[0][experts + "down_proj"] = random_tensor(StoredType::bf16, {4, 64, 64}, 2);
      if (!biases) continue;
      model.shards[0][experts + "gate_up_proj_bias"] = random_tensor(StoredType::bf16, {4, 128}, 1);
      model.shards[0][experts + "down_proj_bias"] = random_tensor(StoredType::bf16, {4, 64}, 1);
    }
    return model;
  };
  EXPECT_EQ(gaps_of(fused(false)), Texts());
  EXPECT_EQ(gaps_of(fused(true)), Texts());
  for (const std::string lost : {"gate_up_proj", "down_proj"}) {
    TestModel model = fused(false);
    remove(model, "layers.1.mlp.experts." + lost);
    const Texts gaps = gaps_of(model);
    ASSERT_EQ(gaps.size(), 1u) << lost;
    EXPECT_NE(gaps[0].find("partner-missing 'model.layers.1.mlp.experts." + lost + "' is missing"),
              std::string::npos)
        << gaps[0];
    remove(model, "layers.0.mlp.experts." + lost);
    EXPECT_EQ(gaps_of(model).size(), 2u) << "of no layer";
  }
  TestModel model = fused(true);
  remove(model, "layers.0.mlp.experts.gate_up_proj_bias");
  remove(model, "layers.0.mlp.experts.down_proj_bias");
  EXPECT_EQ(gaps_of(model).size(), 2u) << "layer 1 has them";
  model = fused(true);
  const std::string experts = "model.layers.1.mlp.experts.";
  model.shards[0][experts + "gate_up_proj"] = random_tensor(StoredType::bf16, {3, 64, 128}, 1);
  model.shards[0][experts + "down_proj_bias"] = random_tensor(StoredType::bf16, {2, 64}, 1);
  EXPECT_EQ(gaps_of(model),
            (Texts{"experts-missing '" + experts + "gate_up_proj' has 3 experts of 4",
                   "experts-missing '" + experts + "down_proj_bias' has 2 experts of 4"}));
  // In the blocks of gpt-oss.
  model = fused(false);
  for (const std::string at : {"0", "1"}) {
    for (const std::string name : {"gate_up_proj", "down_proj"}) {
      const std::string weight = "model.layers." + at + ".mlp.experts." + name;
      model.shards[0].erase(weight);
      model.shards[0][weight + "_blocks"] = random_tensor(StoredType::u8, {4, 64, 2, 16}, 1);
      model.shards[0][weight + "_scales"] = random_tensor(StoredType::u8, {4, 64, 2}, 1);
    }
  }
  EXPECT_EQ(gaps_of(model), Texts());
  remove(model, "layers.0.mlp.experts.down_proj");
  ASSERT_EQ(gaps_of(model).size(), 1u);
  EXPECT_NE(gaps_of(model)[0].find("down_proj' is missing"), std::string::npos);
  remove(model, "layers.1.mlp.experts.gate_up_proj_blocks");
  EXPECT_EQ(gaps_of(model).size(), 2u) << "scales alone are no weight";
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
