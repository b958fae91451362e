#include "microscale/error.hpp"
#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

std::string refusal(LaunchRequest request, std::size_t argument_bytes = 8) {
  Memory memory;
  const Module module(memory, entry(""));
  request.kernel = "k";
  request.arguments.resize(argument_bytes);
  try {
    launch(memory, module, request);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Launch, shapes_that_no_gpu_takes_are_refused) {
  EXPECT_EQ(refusal(shaped(1, 1024)), "");
  EXPECT_NE(refusal(shaped(1, 1025)), "");
  EXPECT_NE(refusal(shaped(0, 32)), "");
  EXPECT_NE(refusal(shaped(1, 0)), "");
  EXPECT_NE(refusal(shaped(1, 32), 4).find("4 bytes of arguments; the kernel's parameters take 8"),
            std::string::npos);
  LaunchRequest much = shaped(1, 32);
  much.dynamic_shared_bytes = 1 << 20;
  EXPECT_NE(refusal(much), "");
  LaunchRequest odd = shaped(3, 32);
  odd.cluster.x = 2;
  EXPECT_NE(refusal(odd), "");
}

TEST(Launch, statistics_count_executions_lanes_and_sectors) {
  const Ran ran = launch_words(entry(own_word + "st.global.u32 [%rd32], %r50;"),
                               std::vector<std::uint32_t>(64), shaped(1, 48, {.statistics = true}));
  EXPECT_EQ(ran.findings(), "");
  bool found = false;
  for (const InstructionCount& each : ran.report.instructions)
    if (each.opcode == "st") {
      found = true;
      EXPECT_EQ(each.warps, 2u);
      EXPECT_EQ(each.lanes, 48u);
      EXPECT_EQ(each.sectors, 6u);
      EXPECT_EQ(each.ideal_sectors, 6u);
    }
  EXPECT_TRUE(found);
}

TEST(Launch, blocks_share_host_threads) {
  const Ran ran = launch_words(entry("ld.param.u64 %rd1, [p]; atom.global.add.u32 %r1, [%rd1], 1;"),
                               {0}, shaped(50, 40, {.threads = 3}));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words[0], 2000u);
}

}  // namespace
}  // namespace microscale::emulator
