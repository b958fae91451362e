#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(Cluster, a_barrier_that_some_warp_never_reaches_is_a_deadlock_with_names) {
  const Ran ran = launch_words(
      entry("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 1, 64; bra B;\n"
            "A: bar.sync 2, 64;\nB:"),
      {0}, shaped(1, 64));
  ASSERT_EQ(ran.count(FindingKind::deadlock), 1) << ran.findings();
  EXPECT_FALSE(ran.report.completed);
  EXPECT_NE(ran.findings().find("warp 0: lanes 0-31"), std::string::npos) << ran.findings();
  EXPECT_NE(ran.findings().find("waits for barrier 1"), std::string::npos) << ran.findings();
}

TEST(Cluster, a_kernel_without_end_meets_its_budget) {
  const Ran ran =
      launch_words(entry("L: bra L;"), {0}, shaped(1, 32, {.instruction_budget = 10000}));
  EXPECT_EQ(ran.count(FindingKind::endless), 1) << ran.findings();
  EXPECT_FALSE(ran.report.completed);
}

TEST(Cluster, a_lane_that_spins_lets_the_others_of_its_warp_go_on) {
  const Ran ran = launch_words(
      entry(own_word + "setp.eq.u32 %p1, %r50, 0; @%p1 bra SPIN; setp.ne.u32 %p2, %r50, 5; @%p2 "
                       "bra END; st.volatile.global.u32 [%rd30], 1; bra END;\n"
                       "SPIN: ld.volatile.global.u32 %r1, [%rd30]; setp.eq.u32 %p3, %r1, 0; @%p3 "
                       "bra SPIN;\nEND:"),
      std::vector<std::uint32_t>(32), shaped(1, 32));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words[0], 1u);
}

TEST(Cluster, blocks_of_a_cluster_know_their_rank) {
  LaunchRequest request = shaped(4, 32);
  request.cluster.x = 2;
  const Ran ran =
      launch_words(entry("ld.param.u64 %rd1, [p]; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, "
                         "%ctaid.x; mul.wide.u32 %rd2, %r2, 4;\n"
                         "add.s64 %rd3, %rd1, %rd2; mov.u32 %r3, %tid.x; setp.ne.u32 %p1, %r3, 0;\n"
                         "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @!%p1 "
                         "st.global.u32 [%rd3], %r1;"),
                   std::vector<std::uint32_t>(4), request);
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words, (std::vector<std::uint32_t>{0, 1, 0, 1}));
}

// Two blocks of a warp: block 0 writes its lanes' numbers into the shared memory of block 1, which
// stores them. `before` and `between` stand around the writing.
Ran store_to_the_other_block(const std::string& before, const std::string& between,
                             Schedule schedule = Schedule::round_robin) {
  LaunchRequest request = shaped(2, 32, {.schedule = schedule, .instruction_budget = 100000});
  request.cluster.x = 2;
  return launch_words(
      entry(".shared .align 4 .b8 tile[128];\n" + own_word +
                "mov.u32 %r1, tile; shl.b32 %r2, %r50, 2; add.u32 %r2, %r1, %r2;\n"
                "mov.u32 %r3, %cluster_ctarank; setp.eq.u32 %p1, %r3, 0;\n" +
                before + "mapa.shared::cluster.u32 %r4, %r2, 1;\n" +
                "@%p1 st.shared::cluster.u32 [%r4], %r50;\n" + between +
                "@%p1 bra END; ld.shared.u32 %r5, [%r2]; st.global.u32 [%rd32+128], %r5;\nEND:",
            "", "sm_90a"),
      std::vector<std::uint32_t>(64), request);
}

const std::string meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";
constexpr Schedule schedules[] = {Schedule::round_robin, Schedule::reverse, Schedule::random};

void expect_stored(const Ran& ran) {
  EXPECT_EQ(ran.findings(), "");
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(ran.words[32 + i], i);
}

TEST(Cluster, a_block_that_need_not_have_begun_must_not_be_touched) {
  for (const std::string& before : {std::string(), std::string("barrier.cluster.arrive.aligned;")})
    for (const Schedule schedule : schedules) {
      const std::string behind = before.empty() ? meet : "barrier.cluster.wait.aligned;\n";
      const Ran ran = store_to_the_other_block(before, behind, schedule);
      ASSERT_EQ(ran.count(FindingKind::absent_block), 1) << ran.findings();
      EXPECT_EQ(ran.findings().find("absent-block: kernel k, block (0,0,0), thread (0,0,0), PTX "
                                    "line 13: lane 0 writes 4 bytes at 0x180000100000000, of "
                                    "block 1 of the cluster, which need not have begun"),
                0u)
          << ran.findings();
    }
}

TEST(Cluster, who_waits_at_its_barrier_knows_that_all_blocks_have_begun) {
  for (const Schedule schedule : schedules)
    for (const char* order : {"", ".relaxed"}) {
      const std::string arrive = "barrier.cluster.arrive" + std::string(order) + ".aligned;\n";
      expect_stored(
          store_to_the_other_block(arrive + "barrier.cluster.wait.aligned;\n", meet, schedule));
    }
}

// Block 1 gives a sign in global memory, which block 0 waits for before it writes.
TEST(Cluster, a_message_from_a_block_shows_that_it_has_begun) {
  const auto sign = [](const std::string& release) {
    return "@%p1 bra READ;\n" + release + " [%rd30], 1; bra GO;\n" +
           "READ: ld.acquire.gpu.global.u32 %r6, [%rd30]; setp.eq.u32 %p2, %r6, 0; @%p2 bra READ;\n"
           "GO: bar.warp.sync -1;\n";
  };
  for (const Schedule schedule : schedules) {
    expect_stored(store_to_the_other_block(sign("st.release.gpu.global.u32"), meet, schedule));
    const Ran ran = store_to_the_other_block(sign("st.relaxed.gpu.global.u32"), meet, schedule);
    EXPECT_EQ(ran.count(FindingKind::absent_block), 1) << ran.findings();
  }
}

// Block 0 reads what block 1 has written; `behind` is all that keeps block 1 from ending.
Ran load_from_the_other_block(const std::string& behind, Schedule schedule) {
  LaunchRequest request = shaped(2, 32, {.schedule = schedule});
  request.cluster.x = 2;
  return launch_words(
      entry(".shared .align 4 .b8 tile[128];\n" + own_word +
                "mov.u32 %r1, tile; shl.b32 %r2, %r50, 2; add.u32 %r2, %r1, %r2;\n"
                "mov.u32 %r3, %cluster_ctarank; setp.ne.u32 %p1, %r3, 0;\n"
                "st.shared.u32 [%r2], %r50;\n" +
                meet + "@%p1 bra END; mapa.shared::cluster.u32 %r4, %r2, 1;\n" +
                "ld.shared::cluster.u32 %r5, [%r4]; st.global.u32 [%rd32+128], %r5;\nEND:" + behind,
            "", "sm_90a"),
      std::vector<std::uint32_t>(64), request);
}

TEST(Cluster, a_block_must_not_end_while_another_touches_its_memory) {
  for (const Schedule schedule : schedules) {
    expect_stored(load_from_the_other_block(meet, schedule));
    for (const char* behind : {"", "barrier.cluster.arrive.aligned;"}) {
      const Ran ran = load_from_the_other_block(behind, schedule);
      ASSERT_EQ(ran.count(FindingKind::absent_block), 1) << ran.findings();
      EXPECT_EQ(ran.findings().find("absent-block: kernel k, block (0,0,0), thread (0,0,0), PTX "
                                    "line 15: lane 0 reads"),
                0u)
          << ran.findings();
      EXPECT_NE(ran.findings().find("until no other block touches its memory any more"),
                std::string::npos);
    }
  }
}

}  // namespace
}  // namespace microscale::emulator
