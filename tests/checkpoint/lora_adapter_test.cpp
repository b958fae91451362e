#include "checkpoint/lora_adapter.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "adapters.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;
using testing::TemporaryFolder;
using testing::TestAdapter;

constexpr const char* q_proj = "model.layers.0.self_attn.q_proj";
constexpr const char* up_proj = "model.layers.0.mlp.up_proj";

TestAdapter adapter() {
  TestAdapter made;
  made.add(q_proj, 64, 32, 1).add(up_proj, 96, 32, 2);
  return made;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

class LoraAdapterFile : public ::testing::Test {
 protected:
  Result<LoraAdapter> open(const TestAdapter& made, double weight = 1) {
    std::filesystem::remove_all(place_ / "adapter");
    made.write(place_ / "adapter");
    return open_lora_adapter({place_ / "adapter", weight});
  }
  TemporaryFolder place_;
};

TEST_F(LoraAdapterFile, pairs_have_modules_ranks_and_factors) {
  const auto opened = open(adapter(), 0.5);
  ASSERT_TRUE(succeeds(opened));
  const auto& pairs = opened.value().pairs;
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].module, up_proj);
  EXPECT_EQ(pairs[1].module, q_proj);
  EXPECT_EQ(pairs[0].rank, 4);
  EXPECT_EQ(pairs[0].factor, 0.5 * 8 / 4);
  EXPECT_FALSE(pairs[0].transposed);
  EXPECT_EQ(pairs[0].a.shape, (std::vector<std::int64_t>{4, 32}));
  EXPECT_EQ(pairs[0].b.shape, (std::vector<std::int64_t>{96, 4}));
  EXPECT_TRUE(succeeds(open_lora_adapter({place_ / "adapter" / "adapter_model.safetensors"})));
}

TEST_F(LoraAdapterFile, scaling_follows_rslora_and_the_patterns) {
  TestAdapter made = adapter();
  made.add("model.layers.11.mlp.up_proj", 96, 32, 3, 9);
  replace(made.config, R"("use_rslora": false)", R"("use_rslora": true)");
  replace(made.config, R"("rank_pattern": {})",
          R"("rank_pattern": {"layers\\.1\\d\\.mlp\\.up_proj": 9, "p_proj": 77})");
  replace(made.config, R"("alpha_pattern": {})", R"("alpha_pattern": {"q_proj": 3.5})");
  const auto opened = open(made);
  ASSERT_TRUE(succeeds(opened));
  const auto& pairs = opened.value().pairs;
  EXPECT_EQ(pairs[0].factor, 8 / std::sqrt(4.0));
  EXPECT_EQ(pairs[1].factor, 3.5 / std::sqrt(4.0));
  EXPECT_EQ(pairs[2].factor, 8 / std::sqrt(9.0));
}

TEST_F(LoraAdapterFile, kinds_that_are_no_sum_are_refused_by_name) {
  for (const auto& [from, to, phrase] :
       {std::tuple(R"("use_dora": false)", R"("use_dora": true)", "DoRA (use_dora)"),
        std::tuple(R"("bias": "none")", R"("bias": "lora_only")", "biases (bias: 'lora_only')"),
        std::tuple(R"("modules_to_save": null)", R"("modules_to_save": ["lm_head"])",
                   "(modules_to_save)"),
        std::tuple(R"("r": 4)", R"("r": 4, "target_parameters": ["a"])", "(target_parameters)"),
        std::tuple(R"("r": 4)", R"("r": 4, "lora_bias": true)", "(lora_bias)"),
        std::tuple(R"("r": 4)", R"("r": 4, "init_lora_weights": "pissa_niter_16")",
                   "weights that 'pissa_niter_16' changed"),
        std::tuple(R"("LORA")", R"("LOKR")", "peft_type 'LOKR'"),
        std::tuple(R"("r": 4)", R"("r": 8)", "of rank 4, but its adapter_config.json says 8"),
        std::tuple(R"("r": 4)", R"("r": "4")", "no numbers r and lora_alpha"),
        std::tuple(R"("r": 4)", R"("r": -4)", "no numbers r and lora_alpha"),
        std::tuple(R"("rank_pattern": {})", R"("rank_pattern": {"(": 4})", "an entry '('"),
        std::tuple(R"("rank_pattern": {})", R"("rank_pattern": [4])", "that is no object"),
        std::tuple(R"({"peft_type")", R"(["peft_type")", "a damaged adapter_config.json")}) {
    TestAdapter made = adapter();
    replace(made.config, from, to);
    EXPECT_TRUE(fails_with(open(made), phrase));
  }
}

TEST_F(LoraAdapterFile, every_tensor_is_accounted_for) {
  const std::string name = std::string("base_model.model.") + q_proj;
  const auto tensor = testing::random_tensor(StoredType::f32, {64, 4}, 5);
  for (const auto& [ending, phrase] : {std::pair(".lora_magnitude_vector", "a magnitude of DoRA"),
                                       std::pair(".lora_embedding_A", "an adapter of an embedding"),
                                       std::pair(".lora_B.bias", "a bias of the adapter"),
                                       std::pair(".weight", "in the place of the model's"),
                                       std::pair(".lora_down.weight", "kohya")}) {
    TestAdapter made = adapter();
    made.tensors[name + ending] = tensor;
    EXPECT_TRUE(fails_with(open(made), phrase)) << ending;
    EXPECT_TRUE(fails_with(open(made), name + ending));
  }
}

TEST_F(LoraAdapterFile, halves_and_pairs_that_do_not_fit_are_refused) {
  const std::string name = std::string("base_model.model.") + q_proj;
  TestAdapter made = adapter();
  made.tensors.erase(name + ".lora_B.weight");
  EXPECT_TRUE(fails_with(open(made), "q_proj.lora_A.weight' without its lora_B"));
  made = adapter();
  made.tensors.erase(name + ".lora_A.weight");
  EXPECT_TRUE(fails_with(open(made), "q_proj.lora_B.weight' without its lora_A"));
  made = adapter();
  made.tensors[name + ".lora_B.weight"] = testing::random_tensor(StoredType::f32, {64, 5}, 5);
  EXPECT_TRUE(fails_with(open(made), "[4, 32] and"));
  made = adapter();
  made.tensors[name + ".lora_B.weight"] = testing::random_tensor(StoredType::f32, {64, 4, 1, 1}, 5);
  EXPECT_TRUE(fails_with(open(made), "(F32 [64, 4, 1, 1])"));
  made = adapter();
  made.tensors[name + ".lora_B.weight"] = testing::random_tensor(StoredType::i8, {64, 4}, 5);
  EXPECT_TRUE(fails_with(open(made), "matrices of F32, BF16 or F16"));
  made.tensors.clear();
  EXPECT_TRUE(fails_with(open(made), "holds no tensors lora_A and lora_B"));
}

TEST_F(LoraAdapterFile, says_what_is_missing) {
  EXPECT_TRUE(fails_with(open_lora_adapter({place_ / "nowhere"}), "nowhere"));
  testing::write_file(place_ / "pickle" / "adapter_model.bin", "x");
  EXPECT_TRUE(fails_with(open_lora_adapter({place_ / "pickle"}), "a pickle, which is not read"));
  TestAdapter made = adapter();
  made.config = "";
  EXPECT_TRUE(fails_with(open(made), "has no adapter_config.json beside it"));
}

}  // namespace
}  // namespace microscale
