// What verify would refuse is not written: the plan fails, and nothing is made.
#include "checkpoint/verify_plan.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/sample_model.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

using testing::attention;
using testing::expect_error;
using testing::mlp;
using testing::options_for;
using testing::random_tensor;
using testing::read_folder;
using testing::TemporaryFolder;
using testing::TestModel;

TestModel small_model() {
  TestModel model;
  for (const std::string name : {"q_proj", "k_proj", "v_proj"}) {
    model.shards[0][attention + name + ".weight"] = random_tensor(StoredType::bf16, {64, 64}, 1);
  }
  return model;
}

Findings findings_of(const TestModel& model, Format format = Format::nvfp4) {
  const TemporaryFolder folder;
  model.write(folder / "in");
  return verify_plan(take(make_model_plan(options_for(folder, format))));
}

TEST(VerifyPlan, a_good_plan_has_no_findings) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    EXPECT_EQ(findings_of(small_model(), format), Findings());
    EXPECT_EQ(findings_of(testing::sample_model(), format), Findings());
  }
}

TEST(VerifyPlan, says_what_verify_says_of_the_result) {
  TestModel model = small_model();
  model.shards[0][attention + "k_scale"] = testing::tensor_of(StoredType::f32, {1}, {0.5f});
  const TemporaryFolder folder;
  model.write(folder / "in");
  const QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  const Findings planned = verify_plan(take(make_model_plan(options)));
  ASSERT_EQ(planned.size(), 2u);
  EXPECT_EQ(planned[0].rule, "kv-scale-alone");
  quantize_model(options);
  EXPECT_EQ(verify_checkpoint(folder / "out").findings, planned);
}

TEST(VerifyPlan, nothing_is_made_that_would_fail) {
  TestModel model = small_model();
  model.shards[0][attention + "k_scale"] =
      testing::tensor_of(StoredType::f32, {1}, {std::numeric_limits<float>::quiet_NaN()});
  const TemporaryFolder folder;
  model.write(folder / "in");
  const QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  const std::string sentence =
      "quantize: the result would fail verify: model.safetensors: '" + attention +
      "k_scale': the cache's scale is nan, which must be finite and positive";
  expect_error(ErrorCode::bad_input, sentence, [&] { plan_quantize_model(options); });
  expect_error(ErrorCode::bad_input, sentence, [&] { quantize_model(options); });
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(VerifyPlan, experts_that_are_missing_are_missed_before_the_work) {
  TestModel model = small_model();
  model.config = R"({"model_type": "mixtral", "num_experts": 3})";
  for (const std::string expert : {"0", "1"}) {
    model.shards[0][mlp + "experts." + expert + ".w2.weight"] =
        random_tensor(StoredType::bf16, {64, 64}, 2);
  }
  const TemporaryFolder folder;
  model.write(folder / "in");
  expect_error(ErrorCode::bad_input, "of 3 experts with 1 weights each, 1 weight is missing",
               [&] { plan_quantize_model(options_for(folder, Format::mxfp4)); });
}

TEST(VerifyPlan, metadata_of_an_unknown_framework_is_rewritten_and_told) {
  const TemporaryFolder folder;
  small_model().write(folder / "in");
  // As numpy's save_file can be made to write it.
  const auto layout =
      take(plan_safetensors({{attention + "o_proj.weight", StoredType::bf16, {128, 64}}},
                            {{"format", "np"}, {"note", "kept"}}));
  testing::write_file(folder / "in" / "model.safetensors",
                      layout.header + std::string(128 * 64 * 2, '\x3C'));
  const QuantizeModelOptions options = options_for(folder, Format::mxfp4);
  const ConversionPlan plan = quantize_model(options);
  EXPECT_EQ(plan.notices, std::vector<std::string>{
                              "model.safetensors: the metadata's format 'np' becomes 'pt', as "
                              "transformers reads no other"});
  EXPECT_EQ(verify_checkpoint(folder / "out").findings, Findings());
  const auto model = take(open_model_folder(folder / "out"));
  EXPECT_EQ(model.shards[0].header.metadata,
            (SafetensorsMetadata{{"format", "pt"}, {"note", "kept"}}));
}

TEST(VerifyPlan, what_a_calibration_left_behind_goes_and_is_named) {
  TestModel model = small_model();
  const std::string amax = attention + "q_proj.input_quantizer._amax";
  model.shards[0][amax] = testing::tensor_of(StoredType::f32, {1}, {3.0f});
  model.shards[0][attention + "q_proj.input_scale"] =
      testing::tensor_of(StoredType::f32, {1}, {0.5f});
  const TemporaryFolder folder;
  model.write(folder / "in");
  const QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  const ConversionPlan plan = quantize_model(options);
  EXPECT_EQ(plan.notices,
            std::vector<std::string>{"'" + amax +
                                     "' and 1 more are left out: left over from a "
                                     "calibration, and no loader of a converted model takes it"});
  EXPECT_EQ(verify_checkpoint(folder / "out").findings, Findings());
  EXPECT_EQ(testing::read_tensors(folder / "out").count(amax), 0u);
}

}  // namespace
}  // namespace microscale
