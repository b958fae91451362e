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

TEST(EmulatorApi, equal_stores_of_several_warps_are_a_race_unless_it_is_told_otherwise) {
  const std::string same = entry("ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], 7;");
  const std::string other = entry(
      "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; shr.u32 %r1, %r1, 5; st.global.u32 "
      "[%rd1], %r1;");
  LaunchOptions forgiving;
  forgiving.equal_stores_race = false;
  EXPECT_EQ(launch_words(same, {0}, shaped(1, 64)).count(FindingKind::race), 1);
  EXPECT_EQ(launch_words(same, {0}, shaped(1, 64, forgiving)).findings(), "");
  EXPECT_EQ(launch_words(other, {0}, shaped(1, 64, forgiving)).count(FindingKind::race), 1);
}

TEST(EmulatorApi, a_launch_stops_when_the_caller_says_so) {
  LaunchOptions options;
  int asked = 0;
  options.threads = 1;
  options.keep_going = [&asked] { return ++asked < 3; };
  try {
    launch_words(entry("$L1: bra $L1;"), {0}, shaped(1, 32, options));
    FAIL() << "it ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::interrupted) << error.what();
  }
  EXPECT_EQ(asked, 3);
}

TEST(EmulatorApi, variables_are_written_and_read) {
  Memory memory;
  Module module(memory, entry("", ".const .align 4 .f32 by = 0f40000000; .global .u32 counter;"));
  ASSERT_EQ(module.variables().size(), 2u);
  EXPECT_EQ(module.variables()[0].name, "by");
  EXPECT_EQ(module.variables()[0].type, "f32");
  float by = 0;
  module.read_variable("by", &by, 4);
  EXPECT_EQ(by, 2.0f);
  const std::uint32_t five = 5;
  module.write_variable("counter", &five, 4);
  std::uint32_t counter = 0;
  module.read_variable("counter", &counter, 4);
  EXPECT_EQ(counter, 5u);
  EXPECT_THROW(module.read_variable("by", &by, 8), Error);
  EXPECT_THROW(module.write_variable("absent", &by, 4), Error);
}

TEST(EmulatorApi, tells_a_kernels_parameters) {
  Memory memory;
  const Module module(memory,
                      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param "
                      ".f32 by, .param .align 8 .b8 rest[24])\n{ .reg .b32 %r<2>; mov.b32 %r1, "
                      "%envreg2; ret; }");
  const KernelInfo info = module.info("k");
  ASSERT_EQ(info.parameters.size(), 2u);
  EXPECT_EQ(info.parameters[0].type, "f32");
  EXPECT_EQ(info.parameters[1].offset, 8);
  EXPECT_EQ(info.parameters[1].bytes, 24);
  EXPECT_TRUE(info.grid_barrier);
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
