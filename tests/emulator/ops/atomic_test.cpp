#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(AtomicInstructions, answer_with_the_value_before_and_leave_the_one_behind) {
  const auto run = [](const std::string& atom, std::uint32_t first) {
    const Ran ran =
        launch_words(entry("ld.param.u64 %rd1, [p]; " + atom + " st.global.u32 [%rd1+4], %r1;"),
                     {first, 0}, shaped(1, 1));
    EXPECT_EQ(ran.findings(), "");
    return ran.words;
  };
  using Words = std::vector<std::uint32_t>;
  EXPECT_EQ(run("atom.global.add.u32 %r1, [%rd1], 5;", 7), (Words{12, 7}));
  EXPECT_EQ(run("atom.global.min.s32 %r1, [%rd1], -1;", 7), (Words{0xffffffff, 7}));
  EXPECT_EQ(run("atom.global.max.u32 %r1, [%rd1], 3;", 7), (Words{7, 7}));
  EXPECT_EQ(run("atom.global.cas.b32 %r1, [%rd1], 7, 9;", 7), (Words{9, 7}));
  EXPECT_EQ(run("atom.global.cas.b32 %r1, [%rd1], 6, 9;", 7), (Words{7, 7}));
  EXPECT_EQ(run("atom.global.inc.u32 %r1, [%rd1], 7;", 7), (Words{0, 7}));
  EXPECT_EQ(run("atom.global.exch.b32 %r1, [%rd1], 1;", 7), (Words{1, 7}));
  EXPECT_EQ(run("mov.u32 %r1, 0; red.global.or.b32 [%rd1], 8;", 7), (Words{15, 0}));
  EXPECT_EQ(run("atom.global.add.f32 %f1, [%rd1], 0f3F800000; mov.b32 %r1, %f1;", 0x3f800000),
            (Words{0x40000000, 0x3f800000}));
}

TEST(AtomicInstructions, all_lanes_of_a_warp_count) {
  const Ran ran = launch_words(entry("ld.param.u64 %rd1, [p]; red.global.add.u32 [%rd1], 1;"), {0},
                               shaped(2, 40));
  EXPECT_EQ(ran.words[0], 80u);
}

}  // namespace
}  // namespace microscale::emulator
