#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(Block, a_barrier_orders_what_warps_tell_each_other_through_shared_memory) {
  const std::string body = own_word +
                           "mov.u32 %r1, tile; mul.lo.u32 %r2, %r50, 4; add.u32 %r3, %r1, %r2; "
                           "st.shared.u32 [%r3], %r50; bar.sync 0;\n"
                           "xor.b32 %r4, %r50, 96; mul.lo.u32 %r5, %r4, 4; add.u32 %r6, %r1, %r5; "
                           "ld.shared.u32 %r7, [%r6];\n"
                           "st.global.u32 [%rd32], %r7;";
  for (const Schedule schedule : {Schedule::round_robin, Schedule::reverse, Schedule::random}) {
    const Ran ran = launch_words(entry(".shared .align 4 .b8 tile[512];\n" + body),
                                 std::vector<std::uint32_t>(128),
                                 shaped(1, 128, {.schedule = schedule, .seed = 5}));
    EXPECT_EQ(ran.findings(), "");
    for (std::uint32_t i = 0; i < 128; ++i) EXPECT_EQ(ran.words[i], i ^ 96);
  }
}

TEST(Block, without_the_barrier_it_is_a_race) {
  const std::string body = own_word +
                           "mov.u32 %r1, tile; mul.lo.u32 %r2, %r50, 4; add.u32 %r3, %r1, %r2; "
                           "st.shared.u32 [%r3], %r50;\n"
                           "xor.b32 %r4, %r50, 96; mul.lo.u32 %r5, %r4, 4; add.u32 %r6, %r1, %r5; "
                           "ld.shared.u32 %r7, [%r6];\n";
  const Ran ran = launch_words(entry(".shared .align 4 .b8 tile[512];\n" + body),
                               std::vector<std::uint32_t>(128), shaped(1, 128));
  EXPECT_GE(ran.count(FindingKind::race) + ran.count(FindingKind::uninitialised_memory), 1)
      << ran.findings();
}

TEST(Block, threads_that_have_left_are_not_waited_for) {
  const Ran ran = launch_words(
      entry(own_word +
            "setp.ge.u32 %p1, %r50, 32; @%p1 bra OUT; bar.sync 0; st.global.u32 [%rd32], 7;\nOUT:"),
      std::vector<std::uint32_t>(64), shaped(1, 64));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words[31], 7u);
}

TEST(Block, special_registers_say_where_a_thread_is) {
  LaunchRequest request;
  request.grid = {2, 3, 1};
  request.block = {4, 2, 2};
  const Ran ran = launch_words(
      entry(
          "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; "
          "mov.u32 %r4, %ctaid.x;\n"
          "mov.u32 %r5, %ctaid.y; mov.u32 %r6, %ntid.x; mov.u32 %r7, %ntid.y; mad.lo.u32 %r8, %r3, "
          "%r7, %r2;\n"
          "mad.lo.u32 %r9, %r8, %r6, %r1; mov.u32 %r10, %nctaid.x; mad.lo.u32 %r11, %r5, %r10, "
          "%r4;\n"
          "mad.lo.u32 %r12, %r11, 16, %r9; mul.wide.u32 %rd2, %r12, 4; add.s64 %rd3, %rd1, %rd2;\n"
          "mov.u32 %r13, %laneid; st.global.u32 [%rd3], %r13;"),
      std::vector<std::uint32_t>(96), request);
  EXPECT_EQ(ran.findings(), "");
  for (std::uint32_t i = 0; i < 96; ++i) EXPECT_EQ(ran.words[i], i % 16);
}

}  // namespace
}  // namespace microscale::emulator
