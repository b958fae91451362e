#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(Assignment, a_register_written_on_every_path_is_not_reported) {
  const Ran ran = launch_words(
      entry("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 3; @%p1 bra A; mov.u32 %r2, 1; bra B;\n"
            "A: mov.u32 %r2, 2;\nB: add.u32 %r3, %r2, 1;"),
      {0}, shaped(1, 32));
  EXPECT_EQ(ran.findings(), "");
}

TEST(Assignment, a_register_written_on_one_path_is_reported_for_the_lanes_of_the_other) {
  const Ran ran = launch_words(
      entry("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 3; @%p1 bra A; mov.u32 %r2, 1;\n"
            "A: add.u32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 1; @%p2 mov.u32 %r4, 1;"),
      {0}, shaped(1, 32));
  ASSERT_EQ(ran.report.findings.size(), 1u) << ran.findings();
  EXPECT_NE(ran.findings().find("register %r2, which lanes 0-2 never wrote"), std::string::npos)
      << ran.findings();
}

TEST(Assignment, a_guard_and_its_opposite_write_every_lane) {
  const Ran ran =
      launch_words(entry("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 3; @%p1 mov.u32 %r2, 1;\n"
                         "@!%p1 mov.u32 %r2, 2; add.u32 %r3, %r2, 1;"),
                   {0}, shaped(1, 32));
  EXPECT_EQ(ran.findings(), "");
}

TEST(Assignment, a_predicate_that_was_never_set_is_reported_too) {
  const Ran ran = launch_words(entry("@%p7 mov.u32 %r2, 1;"), {0}, shaped(1, 32));
  EXPECT_EQ(ran.count(FindingKind::uninitialised_register), 1) << ran.findings();
}

}  // namespace
}  // namespace microscale::emulator
