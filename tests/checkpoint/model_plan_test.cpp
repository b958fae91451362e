#include "checkpoint/model_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::attention;
using testing::fails_with;
using testing::options_for;
using testing::random_tensor;
using testing::sample_model;
using testing::TemporaryFolder;
using testing::TestModel;

const TensorPlan& find(const ConversionPlan& plan, const std::string& name) {
  const auto found = std::find_if(plan.tensors.begin(), plan.tensors.end(),
                                  [&](const TensorPlan& tensor) { return tensor.name == name; });
  if (found == plan.tensors.end()) throw std::runtime_error("no tensor " + name);
  return *found;
}

TEST(ModelPlan, says_of_each_tensor_what_becomes_of_it_and_why) {
  const TemporaryFolder folder;
  sample_model().write(folder / "in");
  const ModelPlan plan = take(make_model_plan(options_for(folder, Format::nvfp4)));
  EXPECT_EQ(plan.summary.tensors.size(), 16u);
  const TensorPlan& q = find(plan.summary, attention + "q_proj.weight");
  EXPECT_EQ(q.treatment, Treatment::quantize);
  EXPECT_EQ(q.reason, "linear weight");
  EXPECT_EQ(q.group, attention + "{q_proj,k_proj,v_proj}");
  EXPECT_EQ(q.dtype, "BF16");
  EXPECT_EQ(q.file, "model-00001-of-00002.safetensors");
  EXPECT_EQ(q.bytes_before, 96 * 64 * 2);
  EXPECT_EQ(q.bytes_after, 96 * 64 / 2 + 96 * 64 / 16 + 4);
  const TensorPlan& empty = find(plan.summary, "model.empty.weight");
  EXPECT_EQ(empty.treatment, Treatment::copy);
  EXPECT_EQ(empty.reason, "outside the repeated layers");
  EXPECT_EQ(find(plan.summary, "model.embed_tokens.weight").reason, "embedding");
}

TEST(ModelPlan, places_parts_of_a_matrix_without_overlap_inside_the_file) {
  const TemporaryFolder folder;
  sample_model().write(folder / "in");
  const ModelPlan plan = take(make_model_plan(options_for(folder, Format::nvfp4)));
  for (const ShardPlan& shard : plan.shards) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges{{0, shard.layout.header.size()}};
    for (const QuantizedMatrix& matrix : shard.matrices) {
      const auto elements = static_cast<std::uint64_t>(matrix.slice.rows * matrix.slice.cols);
      ranges.emplace_back(matrix.at.codes, elements / 2);
      ranges.emplace_back(matrix.at.scales, elements / 16);
      ranges.emplace_back(matrix.at.global_scale, 4);
    }
    for (const CopiedTensor& copy : shard.copies) {
      const std::uint64_t bytes = plan.tensors[copy.tensor].entry->bytes();
      if (bytes > 0) ranges.emplace_back(copy.at, bytes);
    }
    std::sort(ranges.begin(), ranges.end());
    std::uint64_t end = 0;
    for (const auto& [begin, length] : ranges) {
      EXPECT_EQ(begin, end) << "neither overlap nor hole";
      end = begin + length;
    }
    EXPECT_EQ(end, shard.layout.file_size);
  }
}

TEST(ModelPlan, keeps_metadata_of_the_input_and_names_the_framework) {
  TestModel model;
  model.shards[0]["a.o_proj.weight"] = random_tensor(StoredType::f32, {16, 32}, 1);
  const TemporaryFolder folder;
  model.write(folder / "in");
  const auto layout =
      take(plan_safetensors({{"a.o_proj.weight", StoredType::f32, {16, 32}}}, {{"by", "me"}}));
  testing::write_file(folder / "in/model.safetensors",
                      layout.header + model.shards[0]["a.o_proj.weight"].bytes);
  const ModelPlan plan = take(make_model_plan(options_for(folder, Format::nvfp4)));
  EXPECT_NE(plan.shards[0].layout.header.find(R"("__metadata__":{"by":"me","format":"pt"})"),
            std::string::npos);
}

TEST(ModelPlan, passes_failures_of_the_input_on) {
  const TemporaryFolder folder;
  testing::write_file(folder / "in/model.safetensors", "too short");
  EXPECT_FALSE(make_model_plan(options_for(folder, Format::nvfp4)));
  QuantizeModelOptions options = options_for(folder, Format::mxfp6_e2m3);
  EXPECT_TRUE(fails_with(make_model_plan(options), "no checkpoint container"));
}

TEST(ModelPlan, refuses_importance_that_would_have_no_effect) {
  const TemporaryFolder folder;
  sample_model().write(folder / "in");
  QuantizeModelOptions options = options_for(folder, Format::mxfp4);
  options.importance = folder / "importance.safetensors";
  testing::write_safetensors(
      options.importance, {{testing::attention + "q_proj",
                            testing::tensor_of(StoredType::f32, {64}, std::vector<float>(64, 1))}});
  EXPECT_TRUE(testing::succeeds(make_model_plan(options)));
  options.numerics.scale_rule = ScaleRule::ceil;
  const auto plan = make_model_plan(options);
  EXPECT_TRUE(fails_with(plan, "importance has no effect on scale rule ceil, which compares no"));
  EXPECT_EQ(plan.failure().code, ErrorCode::invalid_argument);
  options.format = Format::nvfp4;
  options.numerics = {.scale_rule = ScaleRule::four_over_six};
  EXPECT_TRUE(testing::succeeds(make_model_plan(options)));
}

}  // namespace
}  // namespace microscale
