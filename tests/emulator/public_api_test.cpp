#include "microscale/error.hpp"
#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(EmulatorApi, the_example_of_its_header_works) {
  Memory memory;
  const Module module(memory,
                      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry "
                      "scale(.param .u64 x, .param .f32 by)\n"
                      "{ .reg .b64 %rd<5>; .reg .b32 %r<5>; .reg .f32 %f<5>; ld.param.u64 %rd1, "
                      "[x]; ld.param.f32 %f1, [by];\n"
                      "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; "
                      "mad.lo.u32 %r4, %r1, %r2, %r3;\n"
                      "mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; ld.global.f32 %f2, "
                      "[%rd3]; mul.rn.f32 %f3, %f2, %f1;\n"
                      "st.global.f32 [%rd3], %f3; ret; }");
  std::vector<float> values(512);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::uint64_t x = memory.allocate(2048);
  memory.write(x, values.data(), 2048);
  LaunchRequest request;
  request.kernel = "scale";
  request.grid.x = 2;
  request.block.x = 256;
  request.arguments = arguments(x, 2.0f);
  const LaunchReport report = launch(memory, module, request);
  EXPECT_TRUE(report.completed);
  EXPECT_TRUE(report.findings.empty());
  EXPECT_GT(report.warp_instructions, 16u * 10);
  memory.read(values.data(), x, 2048);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], 2.0f * static_cast<float>(i));
  memory.release(x);
}

TEST(EmulatorApi, memory_refuses_what_is_not_its_own) {
  Memory memory;
  EXPECT_THROW(memory.allocate(-1), Error);
  const std::uint64_t x = memory.allocate(16);
  int value = 0;
  EXPECT_THROW(memory.write(x + 14, &value, 4), Error);
  EXPECT_THROW(memory.read(&value, x - 1, 4), Error);
}

TEST(EmulatorApi, arguments_are_aligned_to_their_size) {
  EXPECT_EQ(arguments(std::uint8_t{1}, std::uint64_t{2}).size(), 16u);
  EXPECT_EQ(arguments(1, 2.0f).size(), 8u);
}

}  // namespace
}  // namespace microscale::emulator
