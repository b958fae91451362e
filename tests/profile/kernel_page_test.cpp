#include "profile/kernel_page.hpp"

#include <gtest/gtest.h>

#include "report/markup_check.hpp"
#include "profile/sample_profile.hpp"

namespace microscale {
namespace {

TEST(KernelPage, is_well_formed_and_shows_source_beside_its_figures) {
  const std::string page = kernel_page(testing::sample_profile());
  EXPECT_EQ(testing::markup_error(page), "");
  EXPECT_NE(page.find("second &lt;&amp;&gt;"), page.npos);
  EXPECT_NE(page.find("<td class=\"n bad\">32.0 / 4.0</td>"), page.npos);
  EXPECT_NE(page.find("<td class=\"n bad\">1.0</td>"), page.npos);
  EXPECT_NE(page.find("1 of its 3 steps are kept"), page.npos);
  EXPECT_EQ(page.find("(end)</td>"), page.npos);
}

TEST(KernelPage, lists_findings_and_does_without_source) {
  KernelProfile profile = testing::sample_profile();
  for (ProfiledInstruction& each : profile.instructions) each.file = 0;
  emulator::Finding finding;
  finding.kind = emulator::FindingKind::race;
  finding.message = "two <writers>";
  profile.report.findings = {finding};
  const std::string page = kernel_page(profile);
  EXPECT_EQ(testing::markup_error(page), "");
  EXPECT_NE(page.find("two &lt;writers&gt;"), page.npos);
  EXPECT_EQ(page.find("<h3>Source</h3>"), page.npos);
}

TEST(KernelPage, links_findings_with_their_lines) {
  KernelProfile profile = testing::sample_profile();
  emulator::Finding finding;
  finding.kind = emulator::FindingKind::race;
  finding.source = "k.cu:2";
  finding.message = "two writers";
  finding.object = "tile";
  finding.address = 0x0100'0000'0000'0000;
  emulator::Finding other = finding;
  other.source = "header.h:7";
  other.inlined_at = "k.cu:1";
  profile.report.findings = {finding, other};
  profile.resources = {{"40", "registers a thread"}};
  const std::string page = kernel_page(profile);
  EXPECT_EQ(testing::markup_error(page), "");
  EXPECT_NE(page.find("<tr id=\"line-1-2\""), page.npos);
  EXPECT_NE(page.find("<a href=\"#line-1-2\">k.cu:2</a>"), page.npos);
  EXPECT_NE(page.find("<a class=\"mark\" href=\"#finding-0\" title=\"two writers\">race</a>"),
            page.npos);
  EXPECT_NE(page.find("href=\"#finding-1\""), page.npos) << "at the call in the kernel's file";
  EXPECT_NE(page.find("1 more of this cause"), page.npos);
  EXPECT_NE(page.find("Cure: put __syncthreads()"), page.npos);
  EXPECT_NE(page.find("<b>40</b><span>registers a thread</span>"), page.npos);
  EXPECT_NE(page.find("<h2>Worst lines</h2>"), page.npos);
}

TEST(KernelPage, leaves_out_columns_that_are_empty) {
  KernelProfile profile = testing::sample_profile();
  profile.instructions.erase(profile.instructions.begin() + 2);
  const std::string page = kernel_page(profile);
  EXPECT_EQ(page.find(">conflicts</th>"), page.npos);
  EXPECT_NE(page.find(">store</th>"), page.npos);
}

}  // namespace
}  // namespace microscale
