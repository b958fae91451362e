#include "checkpoint/containers/gguf_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "checkpoint/containers/gguf_small.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;

class GgufPlanTest : public ::testing::Test {
 protected:
  Result<GgufPlan> plan(const GgufBuilder& builder) {
    write_file(folder_ / "m.gguf", builder.file());
    file_ = take(open_gguf(folder_ / "m.gguf"));
    return plan_gguf(file_);
  }
  static const GgufSource* find(const GgufPlan& plan, const std::string& name) {
    const auto found = std::find_if(plan.sources.begin(), plan.sources.end(),
                                    [&](const GgufSource& source) { return source.name == name; });
    return found == plan.sources.end() ? nullptr : &*found;
  }

  const TemporaryFolder folder_;
  GgufFile file_;
};

TEST_F(GgufPlanTest, a_llama_is_a_model_whose_queries_and_keys_are_sorted_back) {
  GgufBuilder builder = small_metadata("llama");
  const auto result = plan(add_small_tensors(builder));
  ASSERT_TRUE(succeeds(result));
  const GgufPlan& model = result.value();
  EXPECT_TRUE(model.is_model);
  EXPECT_EQ(model.architecture, "llama");
  EXPECT_TRUE(model.notices.empty());
  EXPECT_EQ(model.sources.size(), 11u);
  const GgufSource* query = find(model, "model.layers.0.self_attn.q_proj.weight");
  ASSERT_TRUE(query);
  EXPECT_EQ(query->head_rows, 16);
  EXPECT_EQ(query->shape, (std::vector<std::int64_t>{64, 64}));
  EXPECT_EQ(find(model, "model.layers.0.self_attn.k_proj.weight")->head_rows, 16);
  EXPECT_EQ(find(model, "model.layers.0.self_attn.v_proj.weight")->head_rows, 0);
  EXPECT_TRUE(find(model, "model.norm.weight")->as_stored());
  EXPECT_FALSE(query->as_stored());
}

TEST_F(GgufPlanTest, other_architectures_keep_the_names_of_the_file) {
  GgufBuilder builder = small_metadata("bert");
  const auto result = plan(add_small_tensors(builder));
  ASSERT_TRUE(succeeds(result));
  EXPECT_FALSE(result.value().is_model);
  ASSERT_EQ(result.value().notices.size(), 1u);
  EXPECT_NE(result.value().notices[0].find("architecture 'bert'"), std::string::npos);
  EXPECT_TRUE(find(result.value(), "blk.0.attn_q.weight"));
}

TEST_F(GgufPlanTest, a_tensor_that_such_a_model_does_not_have_is_named) {
  GgufBuilder builder = small_metadata("qwen2");
  add_small_tensors(builder).tensor("blk.0.attn_sinks", GgufType::f32, {4}, counting(4, 0));
  const auto result = plan(builder);
  ASSERT_TRUE(succeeds(result));
  EXPECT_FALSE(result.value().is_model);
  EXPECT_NE(result.value().notices[0].find("'blk.0.attn_sinks' is not one of a qwen2 model"),
            std::string::npos);
}

TEST_F(GgufPlanTest, files_without_architecture_or_heads_are_bare) {
  GgufBuilder nothing;
  EXPECT_FALSE(plan(add_small_tensors(nothing)).value().is_model);
  GgufBuilder headless;
  headless.value("general.architecture", gguf_text("llama"));
  EXPECT_NE(plan(add_small_tensors(headless)).value().notices[0].find("how many heads"),
            std::string::npos);
}

TEST_F(GgufPlanTest, experts_become_tensors_of_their_own) {
  GgufBuilder builder = small_metadata("qwen3moe");
  builder.tensor("blk.0.ffn_up_exps.weight", GgufType::q8_0, {64, 8, 3}, q8_0_blocks(48));
  const auto result = plan(builder);
  ASSERT_TRUE(succeeds(result));
  ASSERT_EQ(result.value().sources.size(), 3u);
  for (std::size_t expert = 0; expert < 3; ++expert) {
    const GgufSource& source = result.value().sources[expert];
    EXPECT_EQ(source.name,
              "model.layers.0.mlp.experts." + std::to_string(expert) + ".up_proj.weight");
    EXPECT_EQ(source.shape, (std::vector<std::int64_t>{8, 64}));
    EXPECT_EQ(source.bytes, 16u * 34);
    EXPECT_EQ(source.begin, result.value().sources[0].begin + expert * 16 * 34);
  }
}

TEST_F(GgufPlanTest, scales_of_tensors_belong_to_their_weights) {
  const std::string block(36, '\x22');
  GgufBuilder builder = small_metadata("qwen3moe");
  builder.tensor("blk.0.attn_v.weight", GgufType::nvfp4, {64, 32}, std::string(32 * 36, '\x22'));
  builder.tensor("blk.0.attn_v.scale", GgufType::f32, {1}, float_bytes({0.25f}));
  builder.tensor("blk.0.attn_v.input_scale", GgufType::f32, {1}, float_bytes({3}));
  builder.tensor("blk.0.ffn_up_exps.weight", GgufType::nvfp4, {64, 1, 2}, block + block);
  builder.tensor("blk.0.ffn_up_exps.scale", GgufType::f32, {2}, float_bytes({0.5f, 2}));
  const auto result = plan(builder);
  ASSERT_TRUE(succeeds(result));
  ASSERT_EQ(result.value().sources.size(), 3u);
  EXPECT_EQ(result.value().sources[0].scale, 0.25f);
  EXPECT_EQ(result.value().sources[1].scale, 0.5f);
  EXPECT_EQ(result.value().sources[2].scale, 2.0f);
  EXPECT_NE(result.value().notices[0].find("1 scales of quantized activations"), std::string::npos);
}

TEST_F(GgufPlanTest, experts_of_a_bare_file_keep_a_scale_each) {
  GgufBuilder builder;
  const std::string blocks(2 * 36, 1);
  builder.tensor("blk.0.ffn_up_exps.weight", GgufType::nvfp4, {64, 1, 2}, blocks);
  builder.tensor("blk.0.ffn_up_exps.scale", GgufType::f32, {2}, float_bytes({0.5f, 2}));
  builder.tensor("blk.1.ffn_up_exps.weight", GgufType::nvfp4, {64, 1, 2}, blocks);
  builder.tensor("blk.1.ffn_up_exps.scale", GgufType::f32, {2}, float_bytes({4, 4}));
  const auto result = plan(builder);
  ASSERT_TRUE(succeeds(result));
  ASSERT_EQ(result.value().sources.size(), 2u);
  EXPECT_EQ(result.value().sources[0].scales, (std::vector{0.5f, 2.0f}));
  EXPECT_FALSE(result.value().sources[0].as_stored());
  EXPECT_EQ(result.value().sources[1].scale, 4.0f);
  EXPECT_TRUE(result.value().sources[1].scales.empty());
}

TEST_F(GgufPlanTest, contradictions_are_refused) {
  const std::string block(36, '\x22');
  GgufBuilder scales = small_metadata("llama");
  scales.tensor("output.weight", GgufType::nvfp4, {64, 1}, block);
  scales.tensor("output.scale", GgufType::f32, {2}, float_bytes({1, 2}));
  EXPECT_TRUE(fails_with(plan(scales), "is a scale of type F32 with 2 elements"));
  GgufBuilder heads = small_metadata("llama");
  heads.tensor("blk.0.attn_q.weight", GgufType::f32, {1, 12}, counting(12, 0));
  EXPECT_TRUE(fails_with(plan(heads), "has 12 rows, which are not 4 heads"));
  GgufBuilder experts = small_metadata("qwen3moe");
  experts.tensor("blk.0.ffn_up_exps.weight", GgufType::f32, {4, 4}, counting(16, 0));
  EXPECT_TRUE(fails_with(plan(experts), "has 2 dimensions, and weights of experts have 3"));
}

}  // namespace
}  // namespace microscale
