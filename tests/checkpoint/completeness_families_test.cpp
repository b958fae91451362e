#include "checkpoint/completeness_families.hpp"

#include <gtest/gtest.h>

#include "checkpoint/families.hpp"
#include "checkpoint/model_builder.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

using testing::Family;
using testing::FamilyTensor;
using testing::TemporaryFolder;
using testing::TestModel;
using Texts = std::vector<std::string>;

TestModel model_of(const Family& family) {
  TestModel model;
  model.config = family.config;
  for (const FamilyTensor& tensor : family.tensors) {
    testing::TestTensor& value = model.shards[0][tensor.name];
    value.type = tensor.type;
    value.shape = tensor.shape;
    value.bytes.resize(stored_bytes(tensor.type, tensor.shape).value());
  }
  return model;
}

TestModel model_called(const std::string& name) { return model_of(testing::family_called(name)); }

Texts gaps_of(const TestModel& model) {
  TemporaryFolder folder;
  model.write(folder.path());
  const ModelFolder opened = take(open_model_folder(folder.path()));
  const auto facts = read_model_facts(model.config);
  std::vector<Gap> gaps;
  find_parts_of_no_layer(opened, facts ? facts.value() : ModelFacts(), gaps);
  Texts texts;
  for (const Gap& gap : gaps) texts.push_back(sentence_of(gap));
  return texts;
}

/// Without all tensors that have `part` in their name.
TestModel without(TestModel model, const std::string& part) {
  std::erase_if(model.shards[0],
                [&](const auto& entry) { return entry.first.find(part) != entry.first.npos; });
  return model;
}

void rename(TestModel& model, const std::string& from, const std::string& to) {
  testing::TestTensors renamed;
  for (auto& [name, tensor] : model.shards[0]) {
    const std::size_t at = name.find(from);
    std::string changed = name;
    if (at != name.npos) changed.replace(at, from.size(), to);
    renamed[changed] = std::move(tensor);
  }
  model.shards[0] = std::move(renamed);
}

TEST(CompletenessFamilies, miss_a_part_that_no_layer_has) {
  const TestModel llama = model_called("llama");
  EXPECT_EQ(gaps_of(llama), Texts());
  EXPECT_EQ(gaps_of(without(llama, "self_attn.o_proj")),
            Texts{"not complete: no layer of 'model.layers' has 'self_attn.o_proj', which models "
                  "of type 'llama' have"});
  EXPECT_EQ(gaps_of(without(llama, ".self_attn.")).size(), 1u) << "all of it at once";
  EXPECT_EQ(gaps_of(without(llama, "layernorm")).size(), 2u);
  EXPECT_EQ(gaps_of(without(llama, "layers.1.mlp.down_proj")), Texts())
      << "others look for what one layer lacks";
}

// "*.weight" as a filter keeps every matrix and loses what has another name.
TEST(CompletenessFamilies, miss_parameters_and_biases_that_are_no_weights) {
  EXPECT_EQ(gaps_of(without(model_called("gpt_oss"), "sinks")),
            Texts{"not complete: no layer of 'model.layers' has 'self_attn.sinks', which models of "
                  "type 'gpt_oss' have"});
  EXPECT_EQ(gaps_of(without(model_called("mamba2"), "A_log")).size(), 1u);
  TestModel model = without(model_called("qwen2"), "_proj.bias");
  EXPECT_EQ(gaps_of(model).size(), 3u);
  model.config.insert(1, R"("attention_bias": false, )");
  EXPECT_EQ(gaps_of(model), Texts()) << "config.json says so";
  // What families do without is no sign of another kind, nor are buffers of old files.
  model = without(model_called("llama"), "o_proj");
  for (const char* layer : {"0", "1"}) {
    const std::string attention = "model.layers." + std::string(layer) + ".self_attn.";
    for (const char* name : {"q_proj.bias", "rotary_emb.inv_freq"}) {
      model.shards[0][attention + name] = testing::random_tensor(StoredType::bf16, {64}, 1);
    }
  }
  EXPECT_EQ(gaps_of(model).size(), 1u);
}

// Kimi Linear has q_proj in layers of both kinds, and one kind without the others' parts.
TEST(CompletenessFamilies, judge_a_layer_by_the_kinds_that_have_all_of_its_modules) {
  TestModel model = without(model_called("kimi_linear"), "q_b_proj");
  model = without(std::move(model), "q_a_layernorm");
  rename(model, "q_a_proj", "q_proj");
  EXPECT_EQ(gaps_of(model), Texts());
}

// Of experts that have a tensor each, too.
TEST(CompletenessFamilies, miss_a_part_that_no_expert_has) {
  EXPECT_EQ(gaps_of(without(model_called("mixtral"), ".w3.")),
            Texts{"not complete: no layer of 'model.layers' has 'block_sparse_moe.experts.*.w3', "
                  "which models of type 'mixtral' have"});
  // All experts in one tensor are another way to write the same.
  TestModel model = without(model_called("mixtral"), ".experts.");
  for (const char* layer : {"0", "1"}) {
    const std::string experts = "model.layers." + std::string(layer) + ".block_sparse_moe.experts.";
    model.shards[0][experts + "gate_up_proj"] =
        testing::random_tensor(StoredType::bf16, {2, 128, 64}, 1);
    model.shards[0][experts + "down_proj"] =
        testing::random_tensor(StoredType::bf16, {2, 64, 64}, 1);
  }
  EXPECT_EQ(gaps_of(model), Texts());
}

// Every module of a layer, in families of every kind: dense, experts, hybrid, fused, of several
// parts.
TEST(CompletenessFamilies, miss_each_part_of_each_family) {
  const std::set<std::string> optional{"q_norm", "k_norm"};
  for (const char* name : {"llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "gpt2",
                           "gpt_neox", "mixtral", "gpt_oss", "deepseek_v2", "falcon_h1", "cohere2",
                           "internlm2", "glm4", "qwen3_vl", "llava", "olmo2"}) {
    const TestModel whole = model_called(name);
    std::set<std::string> modules;
    for (const auto& [tensor, value] : whole.shards[0]) {
      const auto place = repeated_layer_of(parent_of(tensor));
      const bool language =
          place &&
          (place->stack == "model.layers" || place->stack.find("language") != std::string::npos ||
           place->stack == "transformer.h" || place->stack == "gpt_neox.layers");
      if (language && leaf_of(tensor) == "weight") modules.insert(std::string(place->within));
    }
    ASSERT_GE(modules.size(), 4u) << name;
    for (const std::string& module : modules) {
      if (module.find("expert") != module.npos || optional.contains(std::string(leaf_of(module))))
        continue;
      TestModel less = whole;
      std::erase_if(less.shards[0], [&](const auto& entry) {
        const auto place = repeated_layer_of(entry.first);
        return place && place->within.starts_with(module + ".");
      });
      TemporaryFolder folder;
      less.write(folder.path());
      EXPECT_FALSE(find_gaps(take(open_model_folder(folder.path()))).empty())
          << name << " without " << module;
    }
  }
}

TEST(CompletenessFamilies, know_what_members_leave_out) {
  // DeepSeek V2 Lite has q_proj in the place of two layers.
  TestModel model = without(model_called("deepseek_v2"), "q_b_proj");
  model = without(std::move(model), "q_a_layernorm");
  rename(model, "q_a_proj", "q_proj");
  rename(model, "q_a_proj", "q_proj");
  EXPECT_EQ(gaps_of(model), Texts());
  // Norms under other names, as Falcon 40B has them.
  model = model_called("falcon");
  rename(model, "input_layernorm", "ln_attn");
  EXPECT_EQ(gaps_of(model), Texts());
  // No shared experts; no norms of queries where they are an option.
  EXPECT_EQ(gaps_of(without(model_called("deepseek_v2"), "shared_experts")), Texts());
  EXPECT_EQ(gaps_of(without(model_called("hunyuan_v1_dense"), "query_layernorm")), Texts());
  EXPECT_FALSE(gaps_of(without(model_called("qwen3"), "q_norm")).empty());
  EXPECT_EQ(gaps_of(without(model_called("stablelm"), "post_attention_layernorm")), Texts());
  // Granite 4 without experts, as config.json says.
  model = without(model_called("granitemoehybrid"), "block_sparse_moe");
  EXPECT_FALSE(gaps_of(model).empty());
  model.config.insert(1, R"("num_local_experts": 0, )");
  EXPECT_EQ(gaps_of(model), Texts());
  // Keys of other layers.
  model = without(model_called("gemma4"), "v_proj");
  EXPECT_FALSE(gaps_of(model).empty());
  model.config = R"({"model_type": "gemma4", "text_config": {"model_type": "gemma4_text",
                     "attention_k_eq_v": true, "num_hidden_layers": 2}})";
  EXPECT_EQ(gaps_of(model), Texts());
}

TEST(CompletenessFamilies, judge_only_what_they_know) {
  // Another module beside them: a layer of another kind.
  TestModel model = without(model_called("llama"), "o_proj");
  rename(model, "layers.0.self_attn.q_proj", "layers.0.self_attn.qkv");
  rename(model, "layers.1.self_attn.q_proj", "layers.1.self_attn.qkv");
  EXPECT_EQ(gaps_of(model), Texts());
  // One layer, as a drafter has; layers of several kinds; a type that is not known.
  model = without(without(model_called("llama"), "layers.1."), "layernorm");
  EXPECT_EQ(gaps_of(model), Texts());
  model = without(model_called("llama"), "o_proj");
  model.config = R"({"model_type": "llama", "block_configs": []})";
  EXPECT_EQ(gaps_of(model), Texts());
  model.config = R"({"model_type": "nobody"})";
  EXPECT_EQ(gaps_of(model), Texts());
  // Prediction layers count as none.
  model = without(model_called("llama"), "layers.0.input_layernorm");
  model.config = R"({"model_type": "llama", "num_hidden_layers": 1})";
  EXPECT_EQ(gaps_of(model), Texts());
}

TEST(CompletenessFamilies, of_no_known_one_ask_for_norms) {
  TestModel model = without(model_called("llama"), "norm");
  model.config = R"({"model_type": "nobody", "rms_norm_eps": 1e-5})";
  EXPECT_EQ(gaps_of(model), Texts{"maybe not complete: no layer of 'model.layers' has a norm, "
                                  "though config.json has rms_norm_eps"});
  model.config = R"({"model_type": "nobody"})";
  EXPECT_EQ(gaps_of(model), Texts());
  model.config = R"({"model_type": "nanochat", "rms_norm_eps": 1e-5})";
  EXPECT_EQ(gaps_of(model), Texts()) << "its norms have no weights";
}

// Not a part of layers but all of a stack: config.json may be what is wrong.
TEST(CompletenessFamilies, without_the_encoder_that_config_describes_are_doubtful) {
  const auto all_gaps = [](const TestModel& model) {
    TemporaryFolder folder;
    model.write(folder.path());
    Texts texts;
    for (const Gap& gap : find_gaps(take(open_model_folder(folder.path())))) {
      texts.push_back(sentence_of(gap));
    }
    return texts;
  };
  TestModel model = without(without(model_called("llava"), "vision"), "projector");
  EXPECT_EQ(all_gaps(model), Texts{"maybe not complete: config.json has vision_config, but no "
                                   "tensor is of an encoder"});
  model = without(model_called("whisper"), "model.encoder.layers");
  std::erase_if(model.shards[0],
                [](const auto& entry) { return entry.first.starts_with("model.encoder."); });
  model.config.insert(1, R"("encoder_layers": 2, )");
  const Texts texts = all_gaps(model);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_NE(texts[0].find("encoder_layers"), std::string::npos);
}

TEST(CompletenessFamilies, are_asked_by_quantize_and_verify) {
  TemporaryFolder folder;
  TestModel model = without(model_called("llama"), "o_proj");
  model.write(folder / "in");
  QuantizeModelOptions options;
  options.input = folder / "in";
  options.output = folder / "out";
  testing::expect_error(ErrorCode::bad_input, "quantize --allow-incomplete",
                        [&] { quantize_model(options); });
  options.allow_incomplete = true;
  const ConversionPlan plan = quantize_model(options);
  EXPECT_NE(std::find_if(plan.notices.begin(), plan.notices.end(),
                         [](const std::string& text) {
                           return text.find("has 'self_attn.o_proj'") != text.npos;
                         }),
            plan.notices.end());
  const Texts problems = verify_model({folder / "out", 1});
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("no layer of 'model.layers' has 'self_attn.o_proj'"),
            std::string::npos)
      << problems[0];
}

}  // namespace
}  // namespace microscale
