// explain: where its values come from, and --compare.
#include <gtest/gtest.h>

#include <cmath>

#include "microscale/numerics.hpp"
#include "tools/explained.hpp"

namespace microscale::testing {
namespace {

TEST(Explain, takes_values_from_arguments_commas_and_standard_input) {
  const Json wanted = explained({"1", "-2", "3.5"});
  EXPECT_EQ(explained({"block", "1", "-2", "3.5"}), wanted);
  EXPECT_EQ(explained({"1,-2,", "3.5"}), wanted);
  EXPECT_EQ(explained({"-"}, "[1, -2,\n 3.5]\n"), wanted);
  EXPECT_EQ(Json::parse(microscale({"explain", "--json", "--", "1", "-2", "3.5"}).out), wanted);
  EXPECT_EQ(explained({"1", "-2"})["elements"][1]["value"], -2);
  EXPECT_EQ(explained({"-.5", "-1e-3", "-Inf"})["given"], 3);
}

TEST(Explain, refuses_more_values_than_a_block_and_none) {
  std::vector<std::string> arguments(18, "1");
  arguments[0] = "explain";
  arguments.insert(arguments.end(), {"--format", "nvfp4"});
  const Outcome outcome = microscale(arguments);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("17 values given; a block of this format has 16"), std::string::npos)
      << outcome.err;
  EXPECT_EQ(microscale({"explain", "block"}).code, 2);
  EXPECT_EQ(microscale({"explain", "-"}, " \n").code, 2);
}

TEST(ExplainCompare, has_every_rule_and_rounding_and_marks_the_least_error) {
  for (const Format format : {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3}) {
    const Json json =
        explained({"12", "10", "3", "-7", "--compare", "--format", std::string(info(format).name)});
    const Json& rows = json["alternatives"];
    EXPECT_EQ(rows.size(), scale_rules(format).size() * 5 + 2);
    double least = INFINITY;
    int references = 0;
    for (const Json& row : rows) {
      references += row["reference_codec"] == true;
      if (row["reference_codec"] == false)
        least = std::min(least, row["relative_mse"].get<double>());
    }
    EXPECT_EQ(references, 2);
    for (const Json& row : rows)
      EXPECT_EQ(row["best"].get<bool>(),
                row["reference_codec"] == false && row["relative_mse"].get<double>() == least);
  }
}

TEST(ExplainCompare, gives_the_codes_of_the_single_explanation) {
  const Json rows = explained({"12", "10", "3", "-7", "--compare"})["alternatives"];
  for (const Json& row : rows) {
    if (row["scale_rule"] != "amax_ceil" || row["rounding"] != "nearest_even") continue;
    EXPECT_EQ(row["codes"], "2109");
    EXPECT_EQ(row["scale"], "131 0x83");
    return;
  }
  FAIL() << "no row amax_ceil, nearest_even";
}

TEST(ExplainCompare, labels_the_codecs_that_are_no_block_formats) {
  const std::string text = microscale({"explain", "12", "10", "3", "-7", "--compare"}).out;
  EXPECT_NE(text.find("e3m0: scale 0.75"), std::string::npos) << text;
  EXPECT_NE(text.find("nf4: scale 12"), std::string::npos);
  EXPECT_NE(text.find("no block formats here"), std::string::npos);
}

}  // namespace
}  // namespace microscale::testing
