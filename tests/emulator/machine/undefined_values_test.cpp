// Undefined values: carried without a word, told of where they decide something.
#include "emulator/machine/undefined_values.hpp"

#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

/// Lanes 8 to 31 leave %r2 unwritten.
const std::string some_write =
    own_word + "setp.lt.u32 %p1, %r50, 8; @!%p1 bra SKIP; mov.u32 %r2, 5;\nSKIP:\n";

Ran run(const std::string& code) {
  return launch_words(entry(some_write + code), std::vector<std::uint32_t>(32), shaped(1, 32));
}

TEST(UndefinedValues, that_nobody_uses_are_no_finding) {
  const Ran ran = run(
      "add.u32 %r3, %r2, 1; mul.lo.u32 %r4, %r3, %r3; cvt.rn.f32.u32 %f1, %r4; selp.u32 %r5, %r4, "
      "7, %p1;\nst.global.u32 [%rd32], %r5;");
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words[3], 36u);
  EXPECT_EQ(ran.words[9], 7u);
}

TEST(UndefinedValues, are_told_of_where_they_are_stored_with_where_they_came_up) {
  const Ran ran = run("add.u32 %r3, %r2, 1;\nadd.u32 %r4, %r3, %r3;\nst.global.u32 [%rd32], %r4;");
  ASSERT_EQ(ran.report.findings.size(), 1u) << ran.findings();
  EXPECT_EQ(ran.report.findings[0].kind, FindingKind::uninitialised_register);
  EXPECT_NE(ran.findings().find("add reads register %r2, which lanes 8-31 never wrote; st at PTX "
                                "line"),
            std::string::npos)
      << ran.findings();
}

TEST(UndefinedValues, decide_in_branches_addresses_shuffles_and_atomics) {
  for (const char* code :
       {"add.u32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 3; @%p2 mov.u32 %r4, 1;",
        "add.u32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 3; @%p2 bra END;\nEND:",
        "and.b32 %r3, %r2, 7; mul.wide.u32 %rd1, %r3, 4; add.s64 %rd1, %rd30, %rd1; ld.global.u32 "
        "%r4, [%rd1];",
        "add.u32 %r3, %r2, 1; shfl.sync.idx.b32 %r4, %r3, 0, 31, -1;",
        "add.u32 %r3, %r2, 1; red.global.add.u32 [%rd30], %r3;"}) {
    const Ran ran = run(code);
    EXPECT_EQ(ran.count(FindingKind::uninitialised_register), 1) << code << ran.findings();
  }
}

TEST(UndefinedValues, of_a_choice_are_those_of_what_is_chosen) {
  EXPECT_EQ(
      run("mov.u32 %r3, 1; selp.u32 %r4, %r2, %r3, %p1; st.global.u32 [%rd32], %r4;").findings(),
      "");
  EXPECT_EQ(run("mov.u32 %r3, 1; selp.u32 %r4, %r3, %r2, %p1; st.global.u32 [%rd32], %r4;")
                .count(FindingKind::uninitialised_register),
            1);
}

TEST(UndefinedValues, end_where_a_register_is_written_anew) {
  EXPECT_EQ(run("add.u32 %r3, %r2, 1; mov.u32 %r3, 4; st.global.u32 [%rd32], %r3;").findings(), "");
}

const std::string of_shared =
    own_word +
    ".shared .align 16 .b32 s[32]; mov.u32 %r1, s; shl.b32 %r2, %r50, 2; add.u32 %r3, %r1, "
    "%r2; setp.lt.u32 %p1, %r50, 16; @%p1 st.shared.u32 [%r3], %r50; bar.warp.sync -1;\n";

TEST(UndefinedValues, loaded_from_memory_are_carried_too) {
  const auto loaded = [](const std::string& code) {
    return launch_words(entry(of_shared + code), std::vector<std::uint32_t>(64), shaped(1, 32));
  };
  EXPECT_EQ(loaded("ld.shared.u32 %r4, [%r3]; add.u32 %r4, %r4, 1; selp.u32 %r4, %r4, 0, %p1; "
                   "st.global.u32 [%rd32], %r4;")
                .findings(),
            "");
  const Ran used =
      loaded("ld.shared.u32 %r4, [%r3];\nadd.u32 %r4, %r4, 1;\nst.global.u32 [%rd32], %r4;");
  EXPECT_EQ(used.count(FindingKind::uninitialised_memory), 1) << used.findings();
  EXPECT_NE(used.findings().find("lane 16 reads 4 bytes"), std::string::npos) << used.findings();
  EXPECT_NE(used.findings().find("; st at PTX line"), std::string::npos) << used.findings();
  const std::string quad = "mov.u32 %r6, s; ld.shared.v4.u32 {%r4, %r5, %r7, %r8}, [%r6+48]; ";
  EXPECT_EQ(loaded(quad + "st.global.u32 [%rd32], %r8;").findings(), "");
}

TEST(UndefinedValues, of_a_vector_are_the_parts_that_nobody_wrote) {
  const std::string half =
      own_word +
      ".shared .align 16 .b32 s[4]; mov.u32 %r1, s; st.shared.v2.u32 [%r1], {%r50, %r50}; "
      "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1];\n";
  const auto stored = [&](const std::string& reg) {
    return launch_words(entry(half + "st.global.u32 [%rd32], " + reg + ";"), {0}, shaped(1, 1));
  };
  EXPECT_EQ(stored("%r5").findings(), "");
  EXPECT_EQ(stored("%r6").count(FindingKind::uninitialised_memory), 1);
}

TEST(UndefinedValues, only_instructions_without_consequences_carry) {
  for (const char* opcode : {"add", "selp", "setp", "mov", "cvt", "prmt", "isspacep"})
    EXPECT_FALSE(decides_something(opcode)) << opcode;
  for (const char* opcode : {"st", "ld", "bra", "brx", "mma", "wmma", "wgmma", "shfl", "atom",
                             "red", "cp", "call", "bar", "vote"})
    EXPECT_TRUE(decides_something(opcode)) << opcode;
}

}  // namespace
}  // namespace microscale::emulator
