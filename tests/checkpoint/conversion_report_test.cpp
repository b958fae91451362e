#include "checkpoint/conversion_report.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/convert.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;

TEST(ConversionReport, survives_the_journal_bit_for_bit) {
  const testing::TemporaryFolder folder;
  testing::sample_model().write(folder / "in");
  const QuantizeModelOptions options = testing::options_for(folder, Format::nvfp4);
  const ModelReport made = convert_model(options).report;
  QuantizeModelOptions again = options;
  again.output = folder / "again";
  const ModelPlan plan = take(make_model_plan(again));
  ModelReport restored = start_report(plan, options);
  EXPECT_NE(to_json(restored), to_json(made));
  for (std::size_t shard = 0; shard < plan.shards.size(); ++shard) {
    const std::string text = shard_report_text(plan, made, shard);
    EXPECT_TRUE(succeeds(restore_shard_report(text, plan, shard, restored)));
  }
  EXPECT_EQ(to_json(restored), to_json(made));
  for (std::size_t i = 0; i < made.tensors.size(); ++i) {
    EXPECT_EQ(restored.tensors[i].error, made.tensors[i].error);
    EXPECT_EQ(restored.tensors[i].global_scale, made.tensors[i].global_scale);
  }
}

TEST(ConversionReport, has_the_errors_of_outputs_where_statistics_were_given) {
  const testing::TemporaryFolder folder;
  testing::sample_model().write(folder / "in");
  const std::string q = testing::attention + "q_proj";
  std::vector<float> squares(64, 0.01f);
  for (std::size_t i = 0; i < 64; i += 9) squares[i] = 4;
  testing::write_safetensors(folder / "statistics.safetensors",
                             {{q, testing::tensor_of(StoredType::f32, {64}, squares)}});
  QuantizeModelOptions options = testing::options_for(folder, Format::nvfp4);
  EXPECT_EQ(output_errors(convert_model(options).report).layers, 0);
  options.importance = folder / "statistics.safetensors";
  options.output = folder / "weighted";
  const ModelReport report = convert_model(options).report;
  const OutputErrors errors = output_errors(report);
  EXPECT_EQ(errors.layers, 1);
  EXPECT_GT(errors.mean, 0);
  EXPECT_LT(errors.mean, errors.unweighted_mean) << "that is what they are given for";
  // By the definition, from the two folders' values.
  const auto dense = testing::values_of(testing::sample_model().shards[0].at(q + ".weight"));
  for (const bool weighted : {true, false}) {
    const testing::TemporaryFolder expanded;
    DequantizeModelOptions back;
    back.input = weighted ? folder / "weighted" : folder / "out";
    back.output = expanded / "dense";
    back.dtype = DType::f32;
    dequantize_model(back);
    const auto values = testing::values_of(testing::read_tensors(back.output).at(q + ".weight"));
    double error = 0, original = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double off = static_cast<double>(values[i]) - static_cast<double>(dense[i]);
      const double weight = static_cast<double>(squares[i % 64]);
      error += weight * off * off;
      original += weight * static_cast<double>(dense[i]) * static_cast<double>(dense[i]);
    }
    EXPECT_NEAR(weighted ? errors.mean : errors.unweighted_mean, error / original,
                1e-6 * error / original);
  }
}

TEST(ConversionReport, refuses_a_damaged_value) {
  const testing::TemporaryFolder folder;
  testing::sample_model().write(folder / "in");
  const QuantizeModelOptions options = testing::options_for(folder, Format::nvfp4);
  const ModelPlan plan = take(make_model_plan(options));
  ModelReport report = start_report(plan, options);
  const std::string name = testing::attention + "q_proj.weight";
  EXPECT_FALSE(restore_shard_report("[", plan, 0, report));
  EXPECT_TRUE(fails_with(restore_shard_report("[{}]", plan, 0, report), "is damaged"));
  EXPECT_TRUE(fails_with(
      restore_shard_report("[{\"name\":\"" + name + "\",\"error\":[1]}]", plan, 0, report),
      "is damaged"));
}

TEST(ConversionReport, names_the_value_of_every_code) {
  const testing::TemporaryFolder folder;
  testing::sample_model().write(folder / "in");
  for (const Format format : {Format::nvfp4, Format::mxfp8_e4m3}) {
    const QuantizeModelOptions options = testing::options_for(folder, format);
    const ModelReport report = start_report(take(make_model_plan(options)), options);
    EXPECT_EQ(report.scale_values.size(), 256u);
    if (format == Format::nvfp4) {
      EXPECT_EQ(report.element_values[7], 6.0);
      EXPECT_EQ(report.element_values[15], -6.0);
      EXPECT_EQ(report.scale_values[126], 448.0);
      EXPECT_TRUE(std::isnan(report.scale_values[127]));
    } else {
      EXPECT_EQ(report.element_values[126], 448.0);
      EXPECT_TRUE(std::isnan(report.element_values[127]));
      EXPECT_EQ(report.scale_values[127], 1.0);
      EXPECT_TRUE(std::isnan(report.scale_values[255]));
    }
    EXPECT_EQ(report.options, "scale rule search, rounding nearest_even");
  }
}

TEST(ConversionReport, tells_of_errors_far_above_the_usual) {
  ModelReport report;
  for (const auto& [name, error] :
       {std::pair("a.weight", 0.008), std::pair("b.weight", 0.4), std::pair("c.weight", 0.05)}) {
    TensorReport& tensor = report.tensors.emplace_back();
    tensor.name = name;
    tensor.treatment = "nvfp4";
    tensor.error.elements = 1;
    tensor.error.squared_error = error;
    tensor.error.squared_original = 1;
  }
  const auto sentences = unusual_errors(report);
  ASSERT_EQ(sentences.size(), 2u);
  EXPECT_EQ(sentences[0].find("'b.weight' lost more than usual: its relative MSE is 40 %, that of "
                              "ordinary weights in nvfp4 is about 0.9 %"),
            0u)
      << sentences[0];
  EXPECT_NE(sentences[1].find("--ignore 'c'"), std::string::npos);
  for (TensorReport& tensor : report.tensors) tensor.treatment = "mxfp8_e4m3";
  EXPECT_EQ(unusual_errors(report).size(), 3u);
}

// One huge element makes the error of all others a small share.
TEST(ConversionReport, tells_of_tensors_most_of_whose_values_became_zero) {
  ModelReport report;
  for (const auto& [name, flushed] : {std::pair("a.weight", 99u), std::pair("b.weight", 10u)}) {
    TensorReport& tensor = report.tensors.emplace_back();
    tensor.name = name;
    tensor.treatment = "nvfp4";
    tensor.error.elements = 100;
    tensor.error.flushed = flushed;
    tensor.error.squared_error = 1e-9;
    tensor.error.squared_original = 1;
  }
  const auto sentences = unusual_errors(report);
  ASSERT_EQ(sentences.size(), 1u);
  EXPECT_EQ(sentences[0].find("99 % of the values of 'a.weight' became 0"), 0u) << sentences[0];
}

}  // namespace
}  // namespace microscale
