#include "checkpoint/numerics_check.hpp"

#include <gtest/gtest.h>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

TEST(NumericsCheck, rules_belong_to_formats) {
  QuantizeModelOptions options;
  options.format = Format::mxfp4;
  options.numerics.scale_rule = ScaleRule::floor;
  EXPECT_TRUE(testing::succeeds(check_numerics(options)));
  options.format = Format::nvfp4;
  EXPECT_TRUE(testing::fails_with(check_numerics(options), "nvfp4 has no scale rule floor"));
}

TEST(NumericsCheck, importance_wants_a_rule_that_weighs_errors) {
  QuantizeModelOptions options;
  options.importance = "importance.safetensors";
  EXPECT_TRUE(testing::succeeds(check_numerics(options)));
  options.format = Format::mxfp4;
  options.numerics.scale_rule = ScaleRule::rceil;
  EXPECT_TRUE(testing::fails_with(check_numerics(options), "compares no errors"));
}

}  // namespace
}  // namespace microscale
