#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(MemoryInstructions, narrow_values_extend_by_their_sign) {
  const Ran ran = launch_words(entry("ld.param.u64 %rd1, [p]; ld.global.s8 %r1, [%rd1]; "
                                     "ld.global.u8 %r2, [%rd1]; ld.global.s16 %rs1, [%rd1];\n"
                                     "cvt.u32.u16 %r3, %rs1; ld.global.s32 %rd2, [%rd1]; shr.u64 "
                                     "%rd3, %rd2, 32; cvt.u32.u64 %r4, %rd3;\n"
                                     "st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};"),
                               {0x80008381, 0, 0, 0}, shaped(1, 1));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words, (std::vector<std::uint32_t>{0xffffff81, 0x81, 0x8381, 0xffffffff}));
}

TEST(MemoryInstructions, vectors_of_bytes_and_of_64_bits_move_whole) {
  const Ran ran =
      launch_words(entry("ld.param.u64 %rd1, [p]; ld.global.v4.u8 {%rs1, %rs2, %rs3, %rs4}, "
                         "[%rd1]; ld.global.v2.u64 {%rd2, %rd3}, [%rd1+16];\n"
                         "st.global.v4.u8 [%rd1+4], {%rs4, %rs3, %rs2, %rs1}; st.global.v2.u64 "
                         "[%rd1+16], {%rd3, %rd2};\n"
                         "ld.global.v2.u16 {%rs5, _}, [%rd1]; st.global.u16 [%rd1+8], %rs5;"),
                   {0x04030201, 0, 0, 0, 1, 2, 3, 4}, shaped(1, 1));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words, (std::vector<std::uint32_t>{0x04030201, 0x01020304, 0x201, 0, 3, 4, 1, 2}));
}

TEST(MemoryInstructions, local_memory_is_each_threads_own) {
  const Ran ran =
      launch_words(entry(".local .align 4 .b8 own[8];\n" + own_word +
                         "st.local.u32 [own+4], %r50; mov.u64 %rd1, own; cvta.local.u64 %rd2, "
                         "%rd1; ld.u32 %r1, [%rd2+4]; st.global.u32 [%rd32], %r1;"),
                   std::vector<std::uint32_t>(64), shaped(1, 64));
  EXPECT_EQ(ran.findings(), "");
  for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(ran.words[i], i);
}

TEST(MemoryInstructions, cache_policies_change_nothing) {
  const Ran ran = launch_words(
      entry("ld.param.u64 %rd1, [p]; createpolicy.fractional.L2::evict_last.b64 %rd2, 1.0;\n"
            "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %rd3, [%rd1], 4, 8;\n"
            "ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd3; add.u32 %r1, %r1, 1;\n"
            "st.global.L2::cache_hint.u32 [%rd1+4], %r1, %rd2;"),
      {6, 0}, shaped(1, 1));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words, (std::vector<std::uint32_t>{6, 7}));
}

TEST(MemoryInstructions, accesses_out_of_bounds_and_misaligned_end_the_launch) {
  const Ran beyond = launch_words(entry("ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1+4];"),
                                  {0}, shaped(1, 1));
  EXPECT_EQ(beyond.count(FindingKind::out_of_bounds), 1) << beyond.findings();
  EXPECT_FALSE(beyond.report.completed);
  const Ran crooked = launch_words(entry("ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1+2];"),
                                   {0, 0}, shaped(1, 1));
  EXPECT_EQ(crooked.count(FindingKind::misaligned), 1) << crooked.findings();
}

TEST(MemoryInstructions, a_store_below_a_local_array_says_how_far) {
  const Ran ran = launch_words(entry(".local .align 8 .b8 a[48]; mov.u64 %rd1, a; mov.u32 %r1, 7; "
                                     "st.local.u32 [%rd1+-16], %r1;"),
                               {0}, shaped(1, 1));
  EXPECT_EQ(ran.count(FindingKind::out_of_bounds), 1) << ran.findings();
  EXPECT_NE(
      ran.findings().find("16 bytes before the start of the thread's 48 bytes of local memory"),
      std::string::npos)
      << ran.findings();
}

}  // namespace
}  // namespace microscale::emulator
