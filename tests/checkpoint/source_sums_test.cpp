#include "checkpoint/source_sums.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/small_model.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

// What the format really costs, of each rule and of rounding at random, against the bound.
TEST(SourceSums, no_rule_in_use_costs_more_than_is_allowed) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    const std::size_t block = static_cast<std::size_t>(info(format).block);
    for (const ScaleRule rule : scale_rules(format)) {
      if (rule == ScaleRule::amax_ceil || rule == ScaleRule::amax_floor) continue;
      for (unsigned seed = 1; seed <= 40; ++seed) {
        std::vector<float> values = testing::gaussian(64 * 32, seed, std::ldexp(1.0f, seed % 9));
        for (std::size_t i = 0; i < values.size(); i += 37) values[i] *= static_cast<float>(seed);
        QuantizeOptions options;
        options.input = {values.data(), DType::f32, 1, 2048, 2048};
        options.format = format;
        options.numerics.scale_rule = rule;
        const BlockTensor made = quantize(options, {.threads = 1});
        std::vector<float> back(values.size());
        dequantize(made.view(), {back.data(), DType::f32, 1, 2048, 2048});
        double error = 0, allowed = 0, squares = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double off = static_cast<double>(values[i]) - back[i];
          error += off * off;
          squares += static_cast<double>(values[i]) * values[i];
        }
        for (std::size_t at = 0; at < values.size(); at += block) {
          allowed +=
              allowed_squares(format, std::span(values).subspan(at, block), made.global_scale);
        }
        EXPECT_LE(error, allowed) << info(format).name << " " << to_string(rule) << " " << seed;
        EXPECT_LT(allowed, 0.3 * squares) << info(format).name;
      }
    }
  }
}

TEST(SourceSums, of_nothing_allow_nothing) {
  const std::vector<float> zeros(32);
  EXPECT_EQ(allowed_squares(Format::mxfp4, zeros, 1), 0);
  SourceSums sums;
  EXPECT_EQ(sums.cosine(), 0);
  sums.dot = -3, sums.original = 1, sums.stored = 9;
  EXPECT_EQ(sums.cosine(), -1);
  SourceSums more;
  more.first = 7, more.not_nearest = 1, more.allowed = 2;
  sums.add(more);
  EXPECT_EQ(sums.first, 7);
  EXPECT_EQ(sums.allowed, 2);
}

}  // namespace
}  // namespace microscale
