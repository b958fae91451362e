#include "emulator/machine/warp.hpp"

#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

Lanes64 counting() {
  Lanes64 lanes;
  for (std::size_t i = 0; i < 32; ++i) lanes[i] = i;
  return lanes;
}

TEST(Warp, lanes_are_listed_in_runs) {
  EXPECT_EQ(lane_list(1), "lane 0");
  EXPECT_EQ(lane_list(0xffff00ff), "lanes 0-7, 16-31");
}

TEST(Warp, lanes_that_part_meet_again) {
  const Computed got = compute(
      "and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0; @%p1 bra EVEN; mul.lo.u32 %r5, %r1, 10; "
      "bra.uni DONE;\n"
      "EVEN: add.u32 %r5, %r1, 1000;\nDONE: activemask.b32 %r6; cvt.u64.u32 %rd0, %r6; mov.u32 "
      "%r0, %r5;",
      counting());
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(got.r[i], i % 2 ? i * 10 : i + 1000);
    EXPECT_EQ(got.rd[i], 0xffffffffu);
  }
}

TEST(Warp, lanes_meet_again_after_any_distance) {
  for (int distance = 1; distance < 20; ++distance) {
    std::string code =
        "mov.u32 %r5, 0; and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0; @%p1 bra L;\n";
    for (int i = 0; i < distance; ++i) code += "add.u32 %r5, %r5, 1; ";
    const Computed got =
        compute(code + "\nL: activemask.b32 %r0; cvt.u64.u32 %rd0, %r5;", counting());
    for (std::size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(got.rd[i], i % 2 ? static_cast<std::uint64_t>(distance) : 0u);
      EXPECT_EQ(got.r[i], 0xffffffffu);
    }
  }
}

TEST(Warp, a_clock_counts_the_instructions_before_it) {
  for (int distance = 0; distance < 20; ++distance) {
    std::string code = "mov.u32 %r4, %clock;\n";
    for (int i = 0; i < distance; ++i) code += "add.u32 %r5, %r1, 1; @%p1 add.u32 %r6, %r1, 1; ";
    const Computed got = compute("setp.ne.u32 %p1, %r1, %r1; " + code +
                                     "bra.uni L;\nL: mov.u32 %r7, %clock; sub.u32 %r0, %r7, %r4;",
                                 counting());
    EXPECT_EQ(got.r[0], static_cast<std::uint32_t>(2 * distance + 2));
  }
}

TEST(Warp, loops_run_as_often_as_each_lane_wants) {
  const Computed got = compute(
      "mov.u32 %r4, 0; mov.u32 %r5, 0;\nL: setp.ge.u32 %p1, %r4, %r1; @%p1 bra E;\n"
      "add.u32 %r5, %r5, %r4; add.u32 %r4, %r4, 1; bra L;\nE: mov.u32 %r0, %r5;",
      counting());
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(got.r[i], i * (i - 1) / 2 * (i > 0));
}

TEST(Warp, an_indexed_branch_sends_each_lane_its_own_way) {
  const Computed got = compute(
      "and.b32 %r4, %r1, 3; setp.gt.u32 %p1, %r4, 2; @%p1 bra Z; T: .branchtargets A, B, C;\n"
      "brx.idx %r4, T;\nA: mov.u32 %r0, 11; bra Z;\nB: mov.u32 %r0, 22; bra Z;\n"
      "C: mov.u32 %r0, 33;\nZ: add.u32 %r0, %r0, 1;",
      counting());
  constexpr std::uint32_t expected[] = {12, 23, 34, 1};
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(got.r[i], expected[i % 4]);
}

TEST(Warp, functions_take_arguments_and_give_results_lane_by_lane) {
  const std::string function =
      ".func (.param .b32 out) twice (.param .b32 in) { .reg .b32 %a<4>; .reg .pred %q; "
      "ld.param.b32 %a1, [in];\n"
      "setp.gt.u32 %q, %a1, 15; @%q bra BIG; shl.b32 %a2, %a1, 1; st.param.b32 [out], %a2; ret;\n"
      "BIG: mov.u32 %a2, 7; st.param.b32 [out], %a2; ret; }\n";
  const std::string body =
      "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, "
      "%rd2;\n"
      "{ .param .b32 p0; st.param.b32 [p0], %r1; .param .b32 r0; call.uni (r0), twice, (p0); "
      "ld.param.b32 %r2, [r0]; }\n"
      "st.global.u32 [%rd3], %r2;";
  const Ran ran =
      launch_words(entry(body, function), std::vector<std::uint32_t>(32), shaped(1, 32));
  EXPECT_EQ(ran.findings(), "");
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(ran.words[i], i > 15 ? 7 : 2 * i);
}

TEST(Warp, deciding_by_what_was_never_written_is_a_finding) {
  const Ran ran =
      launch_words(entry("ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 3;\n"
                         "@%p1 mov.u32 %r2, 5; add.u32 %r3, %r2, 1;\n"
                         "setp.eq.u32 %p2, %r3, 6; @%p2 bra END;\nEND:"),
                   {0}, shaped(1, 32));
  ASSERT_EQ(ran.report.findings.size(), 1u) << ran.findings();
  EXPECT_EQ(ran.report.findings[0].kind, FindingKind::uninitialised_register);
  EXPECT_EQ(ran.report.findings[0].thread[0], 3u);
  const std::string& message = ran.report.findings[0].message;
  EXPECT_TRUE(message.starts_with("add reads register %r2, which lanes 3-31 never wrote; bra at "))
      << message;
}

TEST(Warp, a_shuffle_waits_for_all_lanes_of_its_mask) {
  const Computed got = compute(
      "setp.lt.u32 %p1, %r1, 7; @%p1 bra SLOW; bra.uni MEET;\nSLOW: add.u32 %r4, %r1, 1;\n"
      "MEET: shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;",
      counting());
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(got.r[i], i ^ 1);
}

TEST(Warp, a_shuffle_in_half_a_warp_names_the_missing_lanes) {
  const Ran ran =
      launch_words(entry("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 4; @%p1 bra A; bra.uni B;\n"
                         "A: shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\n ret;\nB: bar.warp.sync -1;"),
                   {0}, shaped(1, 32));
  EXPECT_GE(ran.count(FindingKind::divergent_aligned), 1) << ran.findings();
  EXPECT_NE(ran.findings().find("lanes 4-31"), std::string::npos) << ran.findings();
}

// Lanes below `lanes` come to `instruction`; the others go on behind it, to `after`, and end.
std::string passed_by(const std::string& instruction, const std::string& after) {
  return entry(own_word + "setp.ge.u32 %p1, %r50, 16; mov.u32 %r2, %r50; @%p1 bra BEHIND;\n" +
               instruction + "\nBEHIND: " + after);
}

TEST(Warp, lanes_that_pass_a_warp_wide_instruction_by_and_end_are_named) {
  for (const char* instruction :
       {"shfl.sync.bfly.b32 %r2, %r50, 1, 31, -1;", "vote.sync.ballot.b32 %r2, %p1, -1;",
        "bar.warp.sync -1;", "match.any.sync.b32 %r2, %r50, -1;",
        "redux.sync.add.u32 %r2, %r50, -1;", "bar.sync 0;", "barrier.sync.aligned 0;"}) {
    const Ran ran = launch_words(passed_by(instruction, "st.global.u32 [%rd32], %r2;"),
                                 std::vector<std::uint32_t>(32), shaped(1, 32));
    ASSERT_EQ(ran.report.findings.size(), 1u) << instruction << "\n" << ran.findings();
    EXPECT_EQ(ran.report.findings[0].kind, FindingKind::divergent_aligned);
    EXPECT_NE(ran.findings().find("without lanes 16-31 of its mask"), std::string::npos)
        << ran.findings();
  }
}

TEST(Warp, lanes_that_returned_before_may_be_named_in_a_mask) {
  for (const char* instruction :
       {"shfl.sync.bfly.b32 %r2, %r50, 1, 31, -1;", "vote.sync.ballot.b32 %r2, %p1, -1;",
        "bar.warp.sync -1;", "bar.sync 0;"}) {
    // Straight to the end; by a block of their own, which the others do not come to; in a loop
    // that some lanes leave for the end.
    const std::string store = "st.global.u32 [%rd32], %r2;";
    for (const std::string& text :
         {passed_by(std::string(instruction) + store, ""),
          entry(own_word + "setp.ge.u32 %p1, %r50, 16; mov.u32 %r2, %r50; @%p1 bra OWN;\n" +
                instruction + store + "ret;\nOWN: " + store),
          entry(own_word +
                "mov.u32 %r3, 0; mov.u32 %r2, 0;\nAGAIN: setp.ge.u32 %p1, %r3, %r50; "
                "@%p1 bra END; add.u32 %r3, %r3, 8; bar.warp.sync -1;" +
                store + "bra AGAIN;\nEND:")}) {
      const Ran ran = launch_words(text, std::vector<std::uint32_t>(32), shaped(1, 32));
      EXPECT_EQ(ran.count(FindingKind::divergent_aligned), 0) << text << "\n" << ran.findings();
    }
  }
}

}  // namespace
}  // namespace microscale::emulator
