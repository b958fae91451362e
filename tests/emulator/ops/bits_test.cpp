#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(BitInstructions, shifts_by_the_width_and_more_shift_everything_out) {
  EXPECT_EQ(word("shl.b32 %r0, %r1, %r2;", 0xffffffff, 31), 0x80000000u);
  EXPECT_EQ(word("shl.b32 %r0, %r1, %r2;", 0xffffffff, 32), 0u);
  EXPECT_EQ(word("shr.u32 %r0, %r1, %r2;", 0xffffffff, 40), 0u);
  EXPECT_EQ(word("shr.s32 %r0, %r1, %r2;", 0x80000000, 40), 0xffffffffu);
  EXPECT_EQ(word64("shr.s64 %rd0, %rd1, %r2;", 0x8000000000000000u, 64), ~std::uint64_t{0});
  EXPECT_EQ(word64("shr.s64 %rd0, %rd1, %r2;", 0x8000000000000000u, 4), 0xf800000000000000u);
  EXPECT_EQ(word64("shl.b64 %rd0, %rd1, %r2;", 1, 63), 0x8000000000000000u);
  EXPECT_EQ(word("shl.b16 %rs4, %rs1, %r2; cvt.u32.u16 %r0, %rs4;", 0xffff, 4), 0xfff0u);
  EXPECT_EQ(word("shf.l.wrap.b32 %r0, %r1, %r2, 36;", 0x12345678, 0x9abcdef0), 0xabcdef01u);
  EXPECT_EQ(word("shf.r.clamp.b32 %r0, %r1, %r2, 99;", 0x12345678, 0x9abcdef0), 0x9abcdef0u);
  EXPECT_EQ(word("shf.l.wrap.b32 %r0, %r1, %r2, 32;", 0x12345678, 0x9abcdef0), 0x9abcdef0u);
  EXPECT_EQ(word("shf.l.clamp.b32 %r0, %r1, %r2, 32;", 0x12345678, 0x9abcdef0), 0x12345678u);
  EXPECT_EQ(word("shf.r.wrap.b32 %r0, %r1, %r2, 8;", 0x12345678, 0x9abcdef0), 0xf0123456u);
}

TEST(BitInstructions, fields_may_lie_beyond_the_value) {
  EXPECT_EQ(word("bfe.u32 %r0, %r1, 8, 8;", 0x12345678), 0x56u);
  EXPECT_EQ(word("bfe.u32 %r0, %r1, 32, 8;", 0xffffffff), 0u);
  EXPECT_EQ(word("bfe.u32 %r0, %r1, 28, 8;", 0xffffffff), 0xfu);
  EXPECT_EQ(word("bfe.s32 %r0, %r1, 4, 4;", 0x80), 0xfffffff8u);
  EXPECT_EQ(word("bfe.s32 %r0, %r1, 32, 4;", 0x80000000), 0xffffffffu);
  EXPECT_EQ(word("bfe.s32 %r0, %r1, 40, 4;", 0x7fffffff), 0u);
  EXPECT_EQ(word("bfe.s32 %r0, %r1, 28, 8;", 0x70000000), 7u);
  EXPECT_EQ(word("bfe.s32 %r0, %r1, 3, 0;", 0xffffffff), 0u);
  EXPECT_EQ(word("bfi.b32 %r0, %r1, %r2, 8, 8;", 0xab, 0x11111111), 0x1111ab11u);
  EXPECT_EQ(word("bfi.b32 %r0, %r1, %r2, 40, 8;", 0xab, 0x11111111), 0x11111111u);
  EXPECT_EQ(word64("bfi.b64 %rd0, %rd1, %rd2, 60, 8;", 0xff, 0), 0xf000000000000000u);
}

TEST(BitInstructions, masks_wrap_or_clamp_their_position_and_length) {
  EXPECT_EQ(word("bmsk.clamp.b32 %r0, %r1, %r2;", 4, 8), 0xff0u);
  EXPECT_EQ(word("bmsk.clamp.b32 %r0, %r1, %r2;", 28, 8), 0xf0000000u);
  EXPECT_EQ(word("bmsk.clamp.b32 %r0, %r1, %r2;", 0, 32), 0xffffffffu);
  EXPECT_EQ(word("bmsk.clamp.b32 %r0, %r1, %r2;", 32, 8), 0u);
  EXPECT_EQ(word("bmsk.clamp.b32 %r0, %r1, %r2;", 3, 0), 0u);
  EXPECT_EQ(word("bmsk.clamp.b32 %r0, %r1, %r2;", 8, 0xffffffff), 0xffffff00u);
  EXPECT_EQ(word("bmsk.wrap.b32 %r0, %r1, %r2;", 36, 40), 0xff0u);
  EXPECT_EQ(word("bmsk.wrap.b32 %r0, %r1, %r2;", 0, 32), 0u);
  EXPECT_EQ(word("bmsk.wrap.b32 %r0, %r1, %r2;", 31, 31), 0x80000000u);
  for (std::uint32_t from = 0; from < 32; ++from)
    for (std::uint32_t length = 0; length < 32; length += 5) {
      std::uint32_t expected = 0;
      for (std::uint32_t i = from; i < from + length && i < 32; ++i) expected |= 1u << i;
      EXPECT_EQ(word("bmsk.wrap.b32 %r0, %r1, %r2;", from, length), expected);
    }
}

TEST(BitInstructions, szext_extends_the_low_bits_by_sign_or_zero) {
  EXPECT_EQ(word("szext.clamp.s32 %r0, %r1, %r2;", 0xabc, 12), 0xfffffabcu);
  EXPECT_EQ(word("szext.clamp.u32 %r0, %r1, %r2;", 0xfffffabc, 12), 0xabcu);
  EXPECT_EQ(word("szext.clamp.s32 %r0, %r1, %r2;", 0x7bc, 12), 0x7bcu);
  EXPECT_EQ(word("szext.clamp.s32 %r0, %r1, %r2;", 0x87654321, 32), 0x87654321u);
  EXPECT_EQ(word("szext.clamp.u32 %r0, %r1, %r2;", 0x87654321, 99), 0x87654321u);
  EXPECT_EQ(word("szext.clamp.s32 %r0, %r1, %r2;", 0xffffffff, 0), 0u);
  EXPECT_EQ(word("szext.wrap.s32 %r0, %r1, %r2;", 0xffffffff, 32), 0u);
  EXPECT_EQ(word("szext.wrap.s32 %r0, %r1, %r2;", 0x3, 33), 0xffffffffu);
  EXPECT_EQ(word("szext.wrap.u32 %r0, %r1, %r2;", 0xffff, 40), 0xffu);
}

TEST(BitInstructions, count_and_find) {
  EXPECT_EQ(word("popc.b32 %r0, %r1;", 0xf0f0), 8u);
  EXPECT_EQ(word("popc.b64 %r0, %rd1;", ~std::uint64_t{0}), 64u);
  EXPECT_EQ(word("clz.b32 %r0, %r1;", 0), 32u);
  EXPECT_EQ(word("clz.b64 %r0, %rd1;", 1), 63u);
  EXPECT_EQ(word("bfind.u32 %r0, %r1;", 0x00010000), 16u);
  EXPECT_EQ(word("bfind.s32 %r0, %r1;", 0xfffffffe), 0u);
  EXPECT_EQ(word("bfind.u32 %r0, %r1;", 0), 0xffffffffu);
  EXPECT_EQ(word("bfind.shiftamt.u32 %r0, %r1;", 0x00010000), 15u);
  EXPECT_EQ(word("brev.b32 %r0, %r1;", 0x00000001), 0x80000000u);
  EXPECT_EQ(word("brev.b32 %r0, %r1;", 0x12345678), 0x1e6a2c48u);
  EXPECT_EQ(word("cnot.b32 %r0, %r1;", 0), 1u);
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t a = ~std::uint64_t{0} >> bit;
    EXPECT_EQ(word("popc.b64 %r0, %rd1;", a), 64u - static_cast<std::uint32_t>(bit));
    EXPECT_EQ(word("clz.b64 %r0, %rd1;", a), static_cast<std::uint32_t>(bit));
    EXPECT_EQ(word("bfind.u64 %r0, %rd1;", a), 63u - static_cast<std::uint32_t>(bit));
    if (bit < 32) continue;
    EXPECT_EQ(word("popc.b32 %r0, %r1;", a), 64u - static_cast<std::uint32_t>(bit));
    EXPECT_EQ(word("clz.b32 %r0, %r1;", a), static_cast<std::uint32_t>(bit - 32));
  }
}

TEST(BitInstructions, prmt_takes_bytes_of_both_words_and_their_signs) {
  const std::uint64_t a = 0x83828180, b = 0x07060504;
  EXPECT_EQ(word("prmt.b32 %r0, %r1, %r2, 0x7531;", a, b), 0x07058381u);
  EXPECT_EQ(word("prmt.b32 %r0, %r1, %r2, %r3;", a, b, 0x7531), 0x07058381u);
  EXPECT_EQ(word("prmt.b32 %r0, %r1, %r2, 0x8c00;", a, b), 0xff008080u);
  EXPECT_EQ(word("prmt.b32 %r0, %r1, %r2, %r3;", a, b, 0x8c00), 0xff008080u);
  EXPECT_EQ(word("prmt.b32.f4e %r0, %r1, %r2, %r3;", a, b, 1), 0x04838281u);
  EXPECT_EQ(word("prmt.b32.b4e %r0, %r1, %r2, %r3;", a, b, 1), 0x06078081u);
  EXPECT_EQ(word("prmt.b32.rc8 %r0, %r1, %r2, %r3;", a, b, 2), 0x82828282u);
  EXPECT_EQ(word("prmt.b32.ecl %r0, %r1, %r2, %r3;", a, b, 2), 0x83828282u);
  EXPECT_EQ(word("prmt.b32.ecr %r0, %r1, %r2, %r3;", a, b, 2), 0x82828180u);
  EXPECT_EQ(word("prmt.b32.rc16 %r0, %r1, %r2, %r3;", a, b, 1), 0x83828382u);
}

TEST(BitInstructions, lop3_follows_its_truth_table) {
  const std::uint64_t a = 0xf0f0f0f0, b = 0xcccccccc, c = 0xaaaaaaaa;
  EXPECT_EQ(word("lop3.b32 %r0, %r1, %r2, %r3, 0x80;", a, b, c),
            static_cast<std::uint32_t>(a & b & c));
  EXPECT_EQ(word("lop3.b32 %r0, %r1, %r2, %r3, 0x96;", a, b, c),
            static_cast<std::uint32_t>(a ^ b ^ c));
  EXPECT_EQ(word("lop3.b32 %r0, %r1, %r2, %r3, 0xea;", a, b, c),
            static_cast<std::uint32_t>((a & b) | c));
  for (std::uint32_t table = 0; table < 256; ++table) {
    const std::string code = "lop3.b32 %r0, %r1, %r2, %r3, " + std::to_string(table) + ";";
    EXPECT_EQ(word(code, a, b, c), table * 0x01010101u);
  }
}

TEST(BitInstructions, selp_takes_the_second_where_a_negated_predicate_holds) {
  EXPECT_EQ(word("setp.eq.u32 %p1, %r1, 3; selp.b32 %r0, 7, 9, %p1;", 3), 7u);
  EXPECT_EQ(word("setp.eq.u32 %p1, %r1, 3; not.pred %p2, %p1; selp.b32 %r0, 7, 9, %p2;", 3), 9u);
  EXPECT_EQ(word("setp.eq.u32 %p1, %r1, 3; selp.b32 %r0, 7, 9, !%p1;", 3), 9u);
  EXPECT_EQ(word64("setp.eq.u32 %p1, %r1, 3; selp.b64 %rd0, %rd2, 9, %p1;", 3, 1ull << 40),
            1ull << 40);
}

TEST(BitInstructions, logic_works_on_16_32_and_64_bits) {
  EXPECT_EQ(word("not.b16 %rs4, %rs1; cvt.u32.u16 %r0, %rs4;", 0x00ff), 0xff00u);
  EXPECT_EQ(word64("not.b64 %rd4, %rd1; xor.b64 %rd5, %rd4, %rd2; and.b64 %rd0, %rd5, %rd3;", 0xff,
                   0xf0, 0xffff),
            0xfff0u);
  EXPECT_EQ(word("or.b32 %r0, %r1, 0x80000000;", 1), 0x80000001u);
}

}  // namespace
}  // namespace microscale::emulator
