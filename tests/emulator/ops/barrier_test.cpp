#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(BarrierInstructions, reductions_tell_everybody) {
  const Ran ran = launch_words(
      entry(own_word + "setp.lt.u32 %p1, %r50, 40; bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred "
                       "%p2, 1, %p1; bar.red.or.pred %p3, 2, !%p1;\n"
                       "selp.b32 %r2, 1000, 0, %p2; selp.b32 %r3, 100, 0, %p3; add.u32 %r4, %r1, "
                       "%r2; add.u32 %r4, %r4, %r3; st.global.u32 [%rd32], %r4;"),
      std::vector<std::uint32_t>(64), shaped(1, 64));
  EXPECT_EQ(ran.findings(), "");
  for (const std::uint32_t word : ran.words) EXPECT_EQ(word, 140u);
}

TEST(BarrierInstructions, one_warp_may_arrive_and_another_wait) {
  const Ran ran =
      launch_words(entry(".shared .align 4 .b8 box[4];\n" + own_word +
                         "setp.lt.u32 %p1, %r50, 32; @%p1 bra MAKE; bar.sync 3, 64; ld.shared.u32 "
                         "%r1, [box]; st.global.u32 [%rd32], %r1; bra END;\n"
                         "MAKE: setp.eq.u32 %p2, %r50, 0; @%p2 st.shared.u32 [box], 77; "
                         "bar.warp.sync -1; bar.arrive 3, 64;\nEND:"),
                   std::vector<std::uint32_t>(64), shaped(1, 64));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words[32], 77u);
}

TEST(BarrierInstructions, a_warp_barrier_may_be_reached_at_two_places) {
  const Ran ran =
      launch_words(entry(own_word + "setp.lt.u32 %p1, %r50, 5; @%p1 bra A; bar.warp.sync -1; "
                                    "st.global.u32 [%rd32], 1; bra E;\n"
                                    "A: bar.warp.sync -1; st.global.u32 [%rd32], 2;\nE:"),
                   std::vector<std::uint32_t>(32), shaped(1, 32));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words[4], 2u);
  EXPECT_EQ(ran.words[5], 1u);
}

TEST(BarrierInstructions, an_aligned_barrier_in_half_a_warp_names_the_rest) {
  const Ran ran = launch_words(entry("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; @%p1 bra A; "
                                     "bar.sync 0; bra E;\nA: bar.sync 0;\nE:"),
                               {0}, shaped(1, 32));
  EXPECT_GE(ran.count(FindingKind::divergent_aligned), 1) << ran.findings();
}

}  // namespace
}  // namespace microscale::emulator
