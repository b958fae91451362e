// How the four warps of a warpgroup come together; what is found when they do not,
// ops/wgmma_findings_test.cpp has.
#include "emulator/machine/warpgroup.hpp"

#include "emulator/ops/wgmma_text.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

// Warp 3 comes to the product only after warp 0 has told it, by an mbarrier, that it is behind it.
TEST(Warpgroup, nobody_waits_for_the_others_before_the_wait) {
  WgmmaText kernel;
  kernel.before =
      ".shared .align 8 .b64 word; mov.u32 %r20, word; setp.eq.u32 %p6, %r50, 0; "
      "@%p6 mbarrier.init.shared::cta.b64 [%r20], 1;\n";
  kernel.fence +=
      "setp.ne.u32 %p7, %r51, 3; @%p7 bra GO;\n"
      "WAIT: mbarrier.test_wait.parity.shared::cta.b64 %p8, [%r20], 0; @!%p8 bra WAIT;\n"
      "GO:\n";
  kernel.commit += "@%p6 mbarrier.arrive.shared::cta.b64 _, [%r20];\n";
  for (const Schedule schedule : {Schedule::round_robin, Schedule::reverse, Schedule::random}) {
    const Ran ran = kernel.run({.schedule = schedule, .instruction_budget = 1'000'000});
    EXPECT_EQ(ran.findings(), "");
    EXPECT_EQ(ran.words[100], 0x41800000u);
  }
}

TEST(Warpgroup, two_in_a_block_are_on_their_own) {
  WgmmaText kernel;
  // The second one multiplies twice.
  kernel.before = "setp.ge.u32 %p9, %r50, 128; ";
  kernel.fill = "@!%p9 bra FILL; bra FILLED; FILL:\n" + kernel.fill + "FILLED:\n";
  kernel.commit = "@!%p9 bra ONCE;\n" + kernel.multiply + "ONCE:\n" + kernel.commit;
  for (const Completion completion : {Completion::latest, Completion::eager, Completion::random}) {
    const Ran ran = kernel.run({.completion = completion, .seed = 9}, 256);
    EXPECT_EQ(ran.findings(), "");
    EXPECT_EQ(ran.words[127], 0x41800000u);
    EXPECT_EQ(ran.words[128], 0x42000000u);
  }
}

}  // namespace
}  // namespace microscale::emulator
