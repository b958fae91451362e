#include "checkpoint/weight_format.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(WeightFormat, has_a_name_that_is_read_back) {
  for (const WeightFormat format : all_weight_formats()) {
    EXPECT_EQ(parse_weight_format(to_string(format)), format);
    const auto blocks = blocks_of(format);
    EXPECT_EQ(blocks.has_value(), format != WeightFormat::fp8);
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

}  // namespace
}  // namespace microscale
