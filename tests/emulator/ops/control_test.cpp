#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(ControlInstructions, trap_ends_the_launch_as_a_finding) {
  const Ran ran = launch_words(entry("trap;"), {0}, shaped(4, 32));
  EXPECT_EQ(ran.count(FindingKind::misuse), 1) << ran.findings();
  EXPECT_FALSE(ran.report.completed);
}

TEST(ControlInstructions, exit_in_some_lanes_leaves_the_others) {
  const Ran ran = launch_words(
      entry(own_word + "setp.lt.u32 %p1, %r50, 4; @%p1 exit; st.global.u32 [%rd32], 1;"),
      std::vector<std::uint32_t>(32), shaped(1, 32));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words[3], 0u);
  EXPECT_EQ(ran.words[4], 1u);
}

}  // namespace
}  // namespace microscale::emulator
