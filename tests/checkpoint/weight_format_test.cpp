#include "checkpoint/weight_format.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(WeightFormat, has_a_name_that_is_read_back) {
  for (const WeightFormat format : all_weight_formats()) {
    EXPECT_EQ(parse_weight_format(to_string(format)), format);
    const auto blocks = blocks_of(format);
    EXPECT_EQ(blocks.has_value(),
              format != WeightFormat::fp8 && format != WeightFormat::fp8_tensor);
    if (blocks) {
      EXPECT_EQ(weight_format_of(*blocks), format);
    }
  }
  EXPECT_EQ(parse_weight_format("mxfp8_e4m3"), WeightFormat::mxfp8);
  EXPECT_EQ(parse_weight_format("mxfp6_e2m3"), std::nullopt);
  EXPECT_EQ(parse_weight_format("fp9"), std::nullopt);
}

TEST(WeightFormat, rows_are_whole_blocks_or_one_piece) {
  EXPECT_EQ(block_problem(48, WeightFormat::nvfp4), "");
  EXPECT_EQ(block_problem(48, WeightFormat::mxfp4), "K = 48 is no multiple of 32");
  EXPECT_EQ(block_problem(31, WeightFormat::fp8), "");
  EXPECT_EQ(block_problem(2097153, WeightFormat::fp8_tensor), "");
  EXPECT_EQ(block_problem(1048577, WeightFormat::fp8), "K = 1048577 is more than 1048576");
}

TEST(WeightFormat, other_formats_follow_the_rule_where_they_have_it) {
  QuantizeModelOptions options;
  options.numerics.scale_rule = ScaleRule::four_over_six;
  options.numerics.seed = 3;
  EXPECT_EQ(numerics_of(options, Format::nvfp4).scale_rule, ScaleRule::four_over_six);
  EXPECT_EQ(numerics_of(options, Format::mxfp4).scale_rule, ScaleRule::search);
  options.numerics = numerics_for(Compat::compressed_tensors, Format::nvfp4);
  options.numerics.seed = 3;
  const Numerics other = numerics_of(options, Format::mxfp4);
  EXPECT_EQ(other.scale_rule, numerics_for(Compat::compressed_tensors, Format::mxfp4).scale_rule);
  EXPECT_EQ(other.seed, 3u);
}

TEST(WeightFormat, a_whole_model_gets_fp8_by_a_pattern_that_matches_the_rest) {
  QuantizeModelOptions options;
  set_format(options, WeightFormat::mxfp4);
  EXPECT_EQ(options.format, Format::mxfp4);
  EXPECT_EQ(main_format(options), WeightFormat::mxfp4);
  options.use = {{"*.down_proj", WeightFormat::nvfp4}};
  set_format(options, WeightFormat::fp8);
  ASSERT_EQ(options.use.size(), 2u);
  EXPECT_EQ(options.use[0].format, WeightFormat::nvfp4);
  EXPECT_EQ(main_format(options), WeightFormat::fp8);
  // ModelOpt's has a scale for each weight where inputs have one.
  QuantizeModelOptions modelopt;
  modelopt.container = Container::modelopt;
  set_format(modelopt, WeightFormat::fp8);
  EXPECT_EQ(main_format(modelopt), WeightFormat::fp8);
  modelopt.use.clear();
  modelopt.input_scales = "amax.json";
  set_format(modelopt, WeightFormat::fp8);
  EXPECT_EQ(main_format(modelopt), WeightFormat::fp8_tensor);
}

TEST(WeightFormat, formats_with_a_scale_of_the_tensor) {
  EXPECT_TRUE(has_tensor_scale(WeightFormat::nvfp4) && has_tensor_scale(WeightFormat::fp8_tensor));
  EXPECT_FALSE(has_tensor_scale(WeightFormat::fp8) || has_tensor_scale(WeightFormat::mxfp4));
}

}  // namespace
}  // namespace microscale
