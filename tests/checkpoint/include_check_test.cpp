#include "checkpoint/include_check.hpp"

#include <gtest/gtest.h>

#include "checkpoint/sample_model.hpp"

namespace microscale {
namespace {

using testing::TemporaryFolder;

// What plan_quantize_model says about the sample model with these patterns; empty: nothing.
std::string said(const std::vector<std::string>& include,
                 const std::vector<std::string>& ignore = {}) {
  TemporaryFolder folder;
  testing::sample_model().write(folder / "in");
  QuantizeModelOptions options = testing::options_for(folder, Format::mxfp4);
  options.include = include;
  options.ignore = ignore;
  try {
    plan_quantize_model(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(CheckIncludes, a_pattern_that_only_matches_what_is_kept_is_refused_with_what_to_write) {
  EXPECT_EQ(said({"lm_hea*"}),
            "quantize: --include 'lm_hea*' has no effect: 'lm_head' is kept (output head); to "
            "quantize it all the same, name it without wildcards: --include 'lm_head'");
  EXPECT_EQ(said({"re:.*o_proj", "re:.*norm.*"}),
            "quantize: --include 're:.*norm.*' has no effect: 'model.norm' is kept (a vector, no "
            "matrix); leave "
            "the pattern out");
}

TEST(CheckIncludes, a_pattern_that_has_an_effect_passes) {
  EXPECT_EQ(said({"*"}), "");
  EXPECT_EQ(said({"*o_proj*"}), "");
  EXPECT_EQ(said({"lm_head"}), "");
}

TEST(CheckIncludes, what_is_ignored_too_has_no_effect) {
  EXPECT_NE(said({"*o_proj*", "*down_proj*"}, {"*o_proj*"}).find("(ignored by '*o_proj*')"),
            std::string::npos);
}

}  // namespace
}  // namespace microscale
