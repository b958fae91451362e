#include <bit>

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

TEST(AtomicInstructions, halves_of_a_word_are_compared_and_swapped) {
  const auto run = [](const std::string& wanted) {
    return launch_words(entry("ld.param.u64 %rd1, [p]; mov.u16 %rs1, " + wanted +
                              "; mov.u16 %rs2, 9; atom.global.cas.b16 %rs3, [%rd1+2], %rs1, %rs2;\n"
                              "st.global.u16 [%rd1+4], %rs3;"),
                        {0x00070005, 0}, shaped(1, 1));
  };
  EXPECT_EQ(run("7").words, (std::vector<std::uint32_t>{0x00090005, 7}));
  EXPECT_EQ(run("5").words, (std::vector<std::uint32_t>{0x00070005, 7}));
}

TEST(AtomicInstructions, sixteen_bytes_are_compared_swapped_and_exchanged) {
  const auto run = [](const std::string& low, const std::string& atom) {
    return launch_words(entry(".reg .b128 %x<4>;\nld.param.u64 %rd1, [p]; mov.u64 %rd2, " + low +
                              "; mov.u64 %rd3, 0x400000003; mov.b128 %x1, {%rd2, %rd3};\n"
                              "mov.u64 %rd4, 11; mov.u64 %rd5, 12; mov.b128 %x2, {%rd4, %rd5};\n" +
                              atom +
                              "\nst.global.b128 [%rd1+16], %x3; ld.global.b128 %x0, [%rd1];\n"
                              "mov.b128 {%rd6, %rd7}, %x0; st.global.u64 [%rd1+32], %rd7;"),
                        {1, 2, 3, 4, 0, 0, 0, 0, 0, 0}, shaped(1, 1));
  };
  const std::string cas = "atom.global.cas.b128 %x3, [%rd1], %x1, %x2;";
  using Words = std::vector<std::uint32_t>;
  EXPECT_EQ(run("0x200000001", cas).words, (Words{11, 0, 12, 0, 1, 2, 3, 4, 12, 0}));
  EXPECT_EQ(run("0x200000002", cas).words, (Words{1, 2, 3, 4, 1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(run("0", "atom.global.exch.b128 %x3, [%rd1], %x2;").words,
            (Words{11, 0, 12, 0, 1, 2, 3, 4, 12, 0}));
  EXPECT_EQ(run("0x200000001", cas).findings(), "");
}

TEST(AtomicInstructions, of_a_vector_add_element_by_element) {
  const auto one = std::bit_cast<std::uint32_t>(1.0f);
  const Ran sums = launch_words(
      entry("ld.param.u64 %rd1, [p]; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000;\n"
            "atom.global.v4.f32.add {%f1, %f2, %f3, %f4}, [%rd1], {%f2, %f1, %f1, %f2};\n"
            "st.global.v4.f32 [%rd1+16], {%f1, %f2, %f3, %f4};\n"
            "mov.b32 %r1, 0x3f803f80; mov.b32 %r2, 0x40004000;\n"
            "red.global.add.noftz.v2.bf16x2 [%rd1+32], {%r1, %r2};"),
      {one, one, one, one, 0, 0, 0, 0, 0x3f803f80, 0x40003f80}, shaped(1, 1));
  EXPECT_EQ(sums.findings(), "");
  const std::uint32_t two = 0x40000000, three = 0x40400000;
  EXPECT_EQ(sums.words, (std::vector<std::uint32_t>{three, two, two, three, one, one, one, one,
                                                    0x40004000, 0x40804040}));
}

TEST(AtomicInstructions, a_vector_must_stand_at_a_multiple_of_its_size) {
  const Ran ran = launch_words(entry("ld.param.u64 %rd1, [p]; mov.f32 %f1, 0f3F800000;\n"
                                     "red.global.v4.f32.add [%rd1+4], {%f1, %f1, %f1, %f1};"),
                               std::vector<std::uint32_t>(8), shaped(1, 1));
  EXPECT_EQ(ran.count(FindingKind::misaligned), 1) << ran.findings();
}

}  // namespace
}  // namespace microscale::emulator
