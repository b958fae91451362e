#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(ControlInstructions, trap_ends_the_launch_as_a_finding) {
  const Ran ran = launch_words(entry("trap;"), {0}, shaped(4, 32));
  EXPECT_EQ(ran.count(FindingKind::misuse), 1) << ran.findings();
  EXPECT_FALSE(ran.report.completed);
}

TEST(ControlInstructions, exit_in_some_lanes_leaves_the_others) {
  const Ran ran = launch_words(
      entry(own_word + "setp.lt.u32 %p1, %r50, 4; @%p1 exit; st.global.u32 [%rd32], 1;"),
      std::vector<std::uint32_t>(32), shaped(1, 32));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words[3], 0u);
  EXPECT_EQ(ran.words[4], 1u);
}

const std::string two_functions =
    ".func (.param .b32 o) add_one(.param .b32 i) { .reg .b32 %r<2>; ld.param.b32 %r1, [i]; "
    "add.u32 "
    "%r1, %r1, 1; st.param.b32 [o], %r1; ret; }\n"
    ".func (.param .b32 o) twice(.param .b32 i) { .reg .b32 %r<2>; ld.param.b32 %r1, [i]; shl.b32 "
    "%r1, %r1, 1; st.param.b32 [o], %r1; ret; }\n"
    ".func (.param .b64 o) other(.param .b64 i) { trap; }\n";
const std::string call_of_rd1 =
    "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r50;\n"
    "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
    "call (r), %rd1, (a), proto; ld.param.b32 %r3, [r]; }\n"
    "st.global.u32 [%rd32], %r3;";

TEST(ControlInstructions, each_lane_calls_the_function_that_its_register_names) {
  const Ran ran =
      launch_words(entry(own_word +
                             "mov.u64 %rd1, add_one; mov.u64 %rd2, twice; and.b32 %r1, %r50, 1;\n"
                             "setp.eq.u32 %p1, %r1, 0; selp.b64 %rd1, %rd1, %rd2, %p1;\n" +
                             call_of_rd1,
                         two_functions),
                   std::vector<std::uint32_t>(32), shaped(1, 32));
  EXPECT_EQ(ran.findings(), "");
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(ran.words[i], i % 2 ? 2 * i : i + 1);
}

TEST(ControlInstructions, a_table_of_functions_is_called_through) {
  const Ran ran = launch_words(
      entry(own_word +
                "mov.u64 %rd2, table; and.b32 %r1, %r50, 1; mul.wide.u32 %rd3, %r1, 8;\n"
                "add.s64 %rd2, %rd2, %rd3; ld.global.u64 %rd1, [%rd2];\n" +
                call_of_rd1,
            two_functions + ".global .align 8 .u64 table[2] = {twice, add_one};\n"),
      std::vector<std::uint32_t>(32), shaped(1, 32));
  EXPECT_EQ(ran.findings(), "");
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(ran.words[i], i % 2 ? i + 1 : 2 * i);
}

TEST(ControlInstructions, a_call_of_what_is_no_such_function_is_found) {
  for (const char* address : {"0", "other", "4096"}) {
    const Ran ran = launch_words(
        entry(own_word + "mov.u64 %rd1, " + address + ";\n" + call_of_rd1, two_functions),
        std::vector<std::uint32_t>(32), shaped(1, 32));
    EXPECT_EQ(ran.count(FindingKind::misuse), 1) << ran.findings();
    EXPECT_NE(ran.findings().find("no function of this module with such parameters"),
              std::string::npos);
  }
}

/// fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2), whose registers live across the calls.
const std::string fib =
    ".func (.param .b32 o) fib(.param .b32 i)\n{ .reg .b32 %r<6>; .reg .b64 %rd<2>; .reg .pred "
    "%p<2>;\n"
    "ld.param.b32 %r1, [i]; mov.b32 %r2, %r1; setp.lt.u32 %p1, %r1, 2; @%p1 bra DONE;\n"
    "cvt.u64.u32 %rd1, %r1;\n"
    "{ .param .b32 a; .param .b32 r; add.u32 %r3, %r1, -1; st.param.b32 [a], %r3; call.uni (r), "
    "fib, (a); ld.param.b32 %r4, [r]; }\n"
    "cvt.u32.u64 %r3, %rd1; add.u32 %r3, %r3, -2;\n"
    "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r3; call.uni (r), fib, (a); ld.param.b32 "
    "%r5, [r]; }\n"
    "add.u32 %r2, %r4, %r5;\nDONE: st.param.b32 [o], %r2; ret; }\n";

TEST(ControlInstructions, a_function_calls_itself_and_keeps_its_registers) {
  const Ran ran = launch_words(
      entry(own_word + "{ .param .b32 a; .param .b32 r; and.b32 %r1, %r50, 15; st.param.b32 [a], "
                       "%r1; call.uni (r), fib, (a); ld.param.b32 %r2, [r]; }\n"
                       "st.global.u32 [%rd32], %r2;",
            fib),
      std::vector<std::uint32_t>(32), shaped(1, 32));
  EXPECT_EQ(ran.findings(), "");
  std::uint32_t wanted[16] = {0, 1};
  for (int i = 2; i < 16; ++i) wanted[i] = wanted[i - 1] + wanted[i - 2];
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(ran.words[i], wanted[i % 16]);
}

TEST(ControlInstructions, two_functions_that_call_each_other_end) {
  const std::string text =
      ".func (.param .b32 o) odd(.param .b32 i);\n"
      ".func (.param .b32 o) even(.param .b32 i) { .reg .b32 %r<4>; .reg .pred %p<2>; ld.param.b32 "
      "%r1, [i]; mov.u32 %r2, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE;\n"
      "{ .param .b32 a; .param .b32 r; add.u32 %r3, %r1, -1; st.param.b32 [a], %r3; call (r), odd, "
      "(a); ld.param.b32 %r2, [r]; }\nDONE: st.param.b32 [o], %r2; ret; }\n"
      ".func (.param .b32 o) odd(.param .b32 i) { .reg .b32 %r<4>; .reg .pred %p<2>; ld.param.b32 "
      "%r1, [i]; mov.u32 %r2, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE;\n"
      "{ .param .b32 a; .param .b32 r; add.u32 %r3, %r1, -1; st.param.b32 [a], %r3; call (r), "
      "even, "
      "(a); ld.param.b32 %r2, [r]; }\nDONE: st.param.b32 [o], %r2; ret; }\n";
  const Ran ran = launch_words(
      entry(own_word +
                "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r50; call (r), even, (a); "
                "ld.param.b32 %r2, [r]; }\nst.global.u32 [%rd32], %r2;",
            text),
      std::vector<std::uint32_t>(32), shaped(1, 32));
  EXPECT_EQ(ran.findings(), "");
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(ran.words[i], i % 2 ? 0u : 1u);
}

TEST(ControlInstructions, endless_recursion_is_found) {
  const Ran ran = launch_words(entry("call f;", ".func f { call f; ret; }\n"), {0}, shaped(1, 1));
  EXPECT_EQ(ran.count(FindingKind::misuse), 1) << ran.findings();
  EXPECT_NE(ran.findings().find("f calls itself"), std::string::npos) << ran.findings();
}

}  // namespace
}  // namespace microscale::emulator
