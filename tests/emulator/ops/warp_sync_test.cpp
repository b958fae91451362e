#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

Lanes64 counting() {
  Lanes64 lanes;
  for (std::size_t i = 0; i < 32; ++i) lanes[i] = i;
  return lanes;
}

TEST(WarpInstructions, shuffles_go_up_down_across_and_to_one) {
  const Computed up = compute(
      "shfl.sync.up.b32 %r0|%p1, %r1, 3, 0, -1; selp.b32 %r4, 1, 0, %p1; cvt.u64.u32 %rd0, %r4;",
      counting());
  const Computed down = compute("shfl.sync.down.b32 %r0, %r1, 3, 31, -1;", counting());
  const Computed segment = compute("shfl.sync.bfly.b32 %r0, %r1, 9, 0x181f, -1;", counting());
  const Computed one = compute("shfl.sync.idx.b32 %r0, %r1, 2, 0x181f, -1;", counting());
  for (std::uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(up.r[i], i < 3 ? i : i - 3);
    EXPECT_EQ(up.rd[i], i >= 3);
    EXPECT_EQ(down.r[i], i > 28 ? i : i + 3);
    EXPECT_EQ(segment.r[i], (i ^ 9) <= ((i & 24) | 7) ? (i ^ 9) : i);
    EXPECT_EQ(one.r[i], (i & 24) | 2);
  }
}

TEST(WarpInstructions, votes_matches_and_reductions_see_all_lanes) {
  const Computed vote = compute(
      "setp.lt.u32 %p1, %r1, 5; vote.sync.ballot.b32 %r0, %p1, -1; vote.sync.any.pred %p2, %p1, "
      "-1;\n"
      "vote.sync.all.pred %p3, %p1, -1; selp.b32 %r4, 1, 0, %p2; selp.b32 %r5, 2, 0, %p3; or.b32 "
      "%r6, %r4, %r5;\n"
      "cvt.u64.u32 %rd0, %r6;",
      counting());
  EXPECT_EQ(vote.r[9], 31u);
  EXPECT_EQ(vote.rd[9], 1u);
  const Computed match =
      compute("and.b32 %r4, %r1, 3; match.any.sync.b32 %r0, %r4, -1;", counting());
  EXPECT_EQ(match.r[6], 0x44444444u);
  EXPECT_EQ(compute("redux.sync.add.u32 %r0, %r1, -1;", counting()).r[0], 496u);
  EXPECT_EQ(compute("redux.sync.max.s32 %r0, %r1, -1;", counting()).r[3], 31u);
  EXPECT_EQ(compute("redux.sync.xor.b32 %r0, %r1, -1;", counting()).r[3], 0u);
  EXPECT_EQ(compute("elect.sync %r0|%p1, -1;", counting()).r[17], 0u);
}

TEST(WarpInstructions, a_lane_outside_its_own_mask_is_a_finding) {
  const Ran ran = launch_words(
      entry("mov.u32 %r1, %tid.x; shfl.sync.idx.b32 %r2, %r1, 0, 31, 0xffff;"), {0}, shaped(1, 32));
  EXPECT_GE(ran.count(FindingKind::misuse), 1) << ran.findings();
}

}  // namespace
}  // namespace microscale::emulator
