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

}  // namespace
}  // namespace microscale::emulator
