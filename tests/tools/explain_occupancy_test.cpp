// explain occupancy: the numbers are of tests/emulator/occupancy_test.cpp; here, how they are
// shown.
#include <gtest/gtest.h>

#include "tools/explained.hpp"

namespace microscale::testing {
namespace {

TEST(ExplainOccupancy, names_the_limit_that_binds) {
  const Json json = explained(
      {"occupancy", "--regs", "128", "--shared", "49664", "--threads", "64", "--gpu", "rtx5070ti"});
  EXPECT_EQ(json["blocks_per_sm"], 2);
  EXPECT_EQ(json["warps_per_sm"], 4);
  EXPECT_EQ(json["blocks_allowed_by"]["registers"], 8);
  EXPECT_EQ(json["binding"], Json::array({"shared memory"}));
  EXPECT_EQ(explained({"occupancy", "--regs", "32", "--threads", "256", "--gpu",
                       "a100"})["threads_per_sm"],
            2048);
}

TEST(ExplainOccupancy, prints_a_table_and_a_verdict) {
  const Outcome outcome =
      microscale({"explain", "occupancy", "--regs", "255", "--threads", "1024"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("cannot be launched"), std::string::npos) << outcome.out;
  const Outcome one =
      microscale({"explain", "occupancy", "--regs", "32", "--threads", "128", "--shared", "200K"});
  EXPECT_NE(one.out.find("1 resident block,"), std::string::npos) << one.out;
}

TEST(ExplainOccupancy, refuses_in_one_sentence) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"explain", "occupancy"},
        {"explain", "occupancy", "--regs", "32"},
        {"explain", "occupancy", "3", "--regs", "32", "--threads", "32"},
        {"explain", "occupancy", "--regs", "256", "--threads", "32"},
        {"explain", "occupancy", "--regs", "32", "--threads", "32", "--gpu", "h300"}}) {
    const Outcome outcome = microscale(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err, "");
  }
}

}  // namespace
}  // namespace microscale::testing
