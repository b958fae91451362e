#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(Findings, equal_places_are_counted_once_and_the_first_is_named) {
  const Ran ran =
      launch_words(entry("mov.u32 %r9, 1; add.u32 %r1, %r2, 1; setp.eq.u32 %p1, %r1, 0; "
                         "@%p1 mov.u32 %r9, 2;"),
                   {0}, shaped(3, 64, {.threads = 1}));
  ASSERT_EQ(ran.report.findings.size(), 1u);
  EXPECT_EQ(ran.report.findings[0].count, 6u);
  EXPECT_EQ(ran.report.findings[0].kernel, "k");
  EXPECT_EQ(ran.report.findings[0].block[0], 0u);
}

TEST(Findings, loc_lines_name_the_source) {
  const Ran ran = launch_words(
      entry(".loc 1 42 3\n add.u32 %r1, %r2, 1;\n.loc 1 43 3\n setp.eq.u32 %p1, %r1, 0;\n"
            "@%p1 mov.u32 %r9, 2;",
            ".file 1 \"dir/some.cu\"\n"),
      {0}, shaped(1, 32));
  ASSERT_EQ(ran.report.findings.size(), 1u);
  EXPECT_EQ(ran.report.findings[0].source, "some.cu:42");
}

}  // namespace
}  // namespace microscale::emulator
