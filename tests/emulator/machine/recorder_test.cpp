// The steps of one warp: what it wrote, which lanes took part, where they went.
#include "emulator/machine/recorder.hpp"

#include <gtest/gtest.h>

#include "emulator/ops/wgmma_text.hpp"
#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

LaunchRequest traced(std::uint32_t block, std::uint32_t warp, std::uint32_t most) {
  LaunchRequest request;
  request.grid = {3};
  request.block = {64};
  request.options.trace = {.wanted = true, .block = block, .warp = warp, .most_steps = most};
  return request;
}

const std::string body =
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.s32 %r3, %r2, 64, %r1;\n"
    "ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2;\n"
    "setp.lt.u32 %p1, %r1, 40;\n"
    "@%p1 st.global.u32 [%rd3], %r3;\n";

TEST(Recorder, keeps_what_one_warp_wrote_and_where_its_lanes_went) {
  const testing::Ran ran = testing::launch_words(
      testing::entry(body), std::vector<std::uint32_t>(192), traced(2, 1, 100));
  const LaunchReport& report = ran.report;
  ASSERT_EQ(report.trace.size(), 9u);  // and the return
  EXPECT_EQ(report.trace_steps, 9u);
  const TraceStep& tid = report.trace[0];
  ASSERT_EQ(tid.written.size(), 1u);
  EXPECT_EQ(report.registers[tid.written[0].index].name, "%r1");
  EXPECT_EQ(tid.written[0].lanes[5], 37u);
  EXPECT_EQ(report.trace[2].written[0].lanes[0], 2u * 64 + 32);
  const RegisterValues& predicate = report.trace[6].written[0];
  EXPECT_EQ(report.registers[predicate.index].bits, 1);
  EXPECT_EQ(predicate.lanes[7], 1u);
  EXPECT_EQ(predicate.lanes[8], 0u);
  const TraceStep& store = report.trace[7];
  EXPECT_EQ(report.instructions[store.instruction].opcode, "st");
  EXPECT_EQ(store.here, ~0u);
  EXPECT_EQ(store.lanes, 0xffu);
  EXPECT_EQ(store.access.lanes, 0xffu);
  EXPECT_EQ(store.access.address[3] - store.access.address[0], 12u);
  EXPECT_EQ(store.written.size(), 0u);
}

TEST(Recorder, keeps_the_first_steps_and_counts_all) {
  const testing::Ran ran =
      testing::launch_words(testing::entry(body), std::vector<std::uint32_t>(192), traced(0, 0, 4));
  EXPECT_EQ(ran.report.trace.size(), 4u);
  EXPECT_EQ(ran.report.trace_steps, 9u);
}

TEST(Recorder, changes_nothing_and_is_off_unless_asked_for) {
  LaunchRequest plain = traced(0, 0, 4);
  plain.options.trace.wanted = false;
  const testing::Ran without =
      testing::launch_words(testing::entry(body), std::vector<std::uint32_t>(192), plain);
  const testing::Ran with =
      testing::launch_words(testing::entry(body), std::vector<std::uint32_t>(192), traced(0, 0, 4));
  EXPECT_EQ(without.report.trace_steps, 0u);
  EXPECT_TRUE(without.report.instructions.empty());
  EXPECT_EQ(without.words, with.words);
  EXPECT_EQ(without.report.warp_instructions, with.report.warp_instructions);
}

TEST(Recorder, shows_the_results_of_a_wgmma_with_the_wait_that_brings_them) {
  const testing::WgmmaText kernel;
  LaunchRequest request = traced(0, 1, 100);
  request.grid.x = 1, request.block.x = 128;
  const testing::Ran ran =
      testing::launch_words(kernel.text(), std::vector<std::uint32_t>(128), request);
  const auto value = [&](const std::string& opcode) -> std::uint64_t {
    for (const TraceStep& step : ran.report.trace)
      if (ran.report.instructions[step.instruction].opcode == opcode)
        for (const RegisterValues& each : step.written)
          if (ran.report.registers[each.index].name == "%f2") return each.lanes[5];
    return 0;
  };
  EXPECT_EQ(value("wgmma.mma_async"), 0xcbcbcbcbu);
  EXPECT_EQ(value("wgmma.wait_group"), 0x41800000u);
}

}  // namespace
}  // namespace microscale::emulator
