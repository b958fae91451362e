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

TEST(MoveInstructions, clocks_never_go_back) {
  EXPECT_EQ(word("mov.u32 %r4, %clock; mov.u64 %rd4, %clock64; mov.u32 %r5, %clock; setp.gt.u32 "
                 "%p1, %r5, %r4; selp.b32 %r0, 1, 0, %p1;",
                 0),
            1u);
}

}  // namespace
}  // namespace microscale::emulator
