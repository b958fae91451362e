#include "profile/worst_lines.hpp"

#include <gtest/gtest.h>

#include "profile/sample_profile.hpp"

namespace microscale {
namespace {

TEST(WorstLines, are_those_that_waste_most_and_before_them_those_with_findings) {
  KernelProfile profile = testing::sample_profile();
  std::vector<WorstLine> lines = worst_lines(profile, 9);
  ASSERT_EQ(lines.size(), 1u);  // the first line is as it should be
  EXPECT_EQ(lines[0].sum.line, 2u);
  EXPECT_EQ(lines[0].wasted, 128u - 16 + 4);
  EXPECT_EQ(lines[0].why, "stores 28.0 sectors a request too many; 1.0 bank conflicts a request");
  emulator::Finding finding;
  finding.kind = emulator::FindingKind::race;
  finding.inlined_at = "k.cu:1";
  profile.report.findings = {finding};
  lines = worst_lines(profile, 9);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].sum.line, 1u);
  EXPECT_EQ(lines[0].findings, std::vector<std::size_t>{0});
  EXPECT_EQ(worst_lines(profile, 1).size(), 1u);
}

}  // namespace
}  // namespace microscale
