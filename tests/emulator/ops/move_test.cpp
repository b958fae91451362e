#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(MoveInstructions, vectors_pack_low_part_first) {
  EXPECT_EQ(word("mov.b32 %r0, {%rs1, %rs2};", 0x1111, 0x2222), 0x22221111u);
  EXPECT_EQ(word("mov.b32 {%rs4, %rs5}, %r1; cvt.u32.u16 %r0, %rs5;", 0x22221111), 0x2222u);
  EXPECT_EQ(word64("mov.b64 %rd0, {%r1, %r2};", 1, 2), 0x200000001u);
  EXPECT_EQ(word("mov.b64 {%r4, %r0}, %rd1;", 0x200000001), 2u);
  EXPECT_EQ(word("mov.b64 {_, %r0}, %rd1;", 0x200000001), 2u);
  EXPECT_EQ(
      word("{ .reg .b8 a, b; mov.b16 {a, b}, %rs1; mov.b16 %rs4, {b, 0}; cvt.u32.u16 %r0, %rs4; }",
           0x1234),
      0x12u);
}

TEST(MoveInstructions, addresses_keep_their_space) {
  EXPECT_EQ(word(".shared .align 4 .b8 x[4]; mov.u64 %rd4, x; cvta.shared.u64 %rd5, %rd4; "
                 "isspacep.shared %p1, %rd5;\n"
                 "cvta.to.shared.u64 %rd6, %rd5; setp.eq.s64 %p2, %rd6, %rd4; and.pred %p3, %p1, "
                 "%p2; selp.b32 %r0, 1, 0, %p3;",
                 0),
            1u);
}

TEST(MoveInstructions, of_128_bits_keep_both_halves) {
  EXPECT_EQ(
      word64(".reg .b128 %x<2>; mov.b128 %x0, {%rd1, %rd2}; mov.b128 %x1, %x0; mov.b128 {%rd4, "
             "%rd5}, %x1; sub.s64 %rd0, %rd5, %rd4;",
             3, 0x500000007),
      0x500000004u);
}

TEST(MoveInstructions, shared_addresses_know_their_block) {
  const Ran ran = launch_words(
      entry(own_word +
            ".shared .b32 s; mov.u32 %r1, s; mapa.shared::cluster.u32 %r2, %r1, 1;\n"
            "getctarank.shared::cluster.u32 %r3, %r2; getctarank.shared::cluster.u32 %r4, "
            "%r1; mad.lo.u32 %r5, %r3, 10, %r4; mov.u32 %r6, %ctaid.x;\n"
            "mul.wide.u32 %rd1, %r6, 4; add.s64 %rd1, %rd30, %rd1; st.global.u32 [%rd1], "
            "%r5;\nbarrier.cluster.arrive; barrier.cluster.wait;"),
      {7, 7}, [] {
        LaunchRequest request = shaped(2, 1);
        request.cluster.x = 2;
        return request;
      }());
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words, (std::vector<std::uint32_t>{10, 11}));
}

// Cooperative groups keep the barriers of tiles larger than a warp there.
TEST(MoveInstructions, reserved_shared_memory_begins_as_zeros_behind_the_block_s_own) {
  const Ran ran = launch_words(
      entry(own_word +
            ".shared .b32 s[5]; mov.u32 %r1, %reserved_smem_offset_1; red.shared.or.b32 "
            "[%r1], 6; ld.shared.u32 %r2, [%r1]; st.global.u32 [%rd30], %r2;\n"
            "mov.u32 %r3, %reserved_smem_offset_begin; setp.ge.u32 %p1, %r3, 20; selp.u32 "
            "%r4, 1, 0, %p1; st.global.u32 [%rd30+4], %r4;"),
      {0, 0}, shaped(2, 1));
  EXPECT_EQ(ran.words, (std::vector<std::uint32_t>{6, 1}));
}

TEST(MoveInstructions, clocks_never_go_back) {
  EXPECT_EQ(word("mov.u32 %r4, %clock; mov.u64 %rd4, %clock64; mov.u32 %r5, %clock; setp.gt.u32 "
                 "%p1, %r5, %r4; selp.b32 %r0, 1, 0, %p1;",
                 0),
            1u);
}

}  // namespace
}  // namespace microscale::emulator
