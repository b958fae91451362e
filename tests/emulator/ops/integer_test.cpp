#include <bit>
#include <string>

#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

template <class Expected>
void each(const std::string& code, Expected expected) {
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    const Lanes64 a = edges(seed), b = edges(seed + 100), c = edges(seed + 200);
    const Computed got = compute(code, a, b, c);
    for (std::size_t i = 0; i < 32; ++i)
      ASSERT_EQ(got.r[i], static_cast<std::uint32_t>(expected(a[i], b[i], c[i])))
          << code << " of " << a[i] << ", " << b[i];
  }
}
template <class Expected>
void each64(const std::string& code, Expected expected) {
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    const Lanes64 a = edges(seed), b = edges(seed + 100), c = edges(seed + 200);
    const Computed got = compute(code, a, b, c);
    for (std::size_t i = 0; i < 32; ++i)
      ASSERT_EQ(got.rd[i], static_cast<std::uint64_t>(expected(a[i], b[i], c[i])))
          << code << " of " << a[i] << ", " << b[i];
  }
}

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

TEST(IntegerInstructions, wrap_around_at_their_width) {
  each("add.s32 %r0, %r1, %r2;", [](u64 a, u64 b, u64) { return a + b; });
  each("sub.u32 %r0, %r1, %r2;", [](u64 a, u64 b, u64) { return a - b; });
  each("mul.lo.s32 %r0, %r1, %r2;", [](u64 a, u64 b, u64) { return a * b; });
  each("mad.lo.u32 %r0, %r1, %r2, %r3;", [](u64 a, u64 b, u64 c) { return a * b + c; });
  each("neg.s32 %r0, %r1;", [](u64 a, u64, u64) { return 0 - a; });
  each("add.s16 %rs4, %rs1, %rs2; cvt.u32.u16 %r0, %rs4;",
       [](u64 a, u64 b, u64) { return (a + b) & 0xffff; });
  each64("mul.lo.s64 %rd0, %rd1, %rd2;", [](u64 a, u64 b, u64) { return a * b; });
}

TEST(IntegerInstructions, a_64_bit_sum_carries_into_the_high_half) {
  EXPECT_EQ(word64("add.u64 %rd0, %rd1, %rd2;", 0xffffffff, 1), 0x100000000u);
  each64("add.u64 %rd0, %rd1, %rd2;", [](u64 a, u64 b, u64) { return a + b; });
  each64("sub.s64 %rd0, %rd1, %rd2;", [](u64 a, u64 b, u64) { return a - b; });
  EXPECT_EQ(word("add.cc.u32 %r4, %r1, %r1; addc.u32 %r0, %r2, 0;", 0x80000000u, 7), 8u);
  EXPECT_EQ(word("sub.cc.u32 %r4, %r1, %r2; subc.u32 %r0, %r3, 0;", 1, 2, 5), 4u);
}

TEST(IntegerInstructions, products_are_added_with_carry) {
  using u128 = unsigned __int128;
  // 64 bits times 64 bits and 128 more, as __int128 multiplies.
  each64("mad.lo.cc.u64 %rd4, %rd1, %rd2, %rd3; madc.hi.u64 %rd0, %rd1, %rd2, %rd3;",
         [](u64 a, u64 b, u64 c) {
           const u128 product = u128{a} * b;
           const u128 sum = product + (u128{c} << 64 | c);
           return static_cast<u64>(sum >> 64);
         });
  each("mad.lo.cc.u32 %r4, %r1, %r2, %r3; madc.hi.s32 %r0, %r1, %r2, 7;", [](u64 a, u64 b, u64 c) {
    const s64 product = s64{s32(a)} * s32(b);
    const u64 low = u64{u32(product)} + u32(c);
    return static_cast<u64>(product >> 32) + 7 + (low >> 32);
  });
  each("mad.hi.cc.u32 %r4, %r1, %r2, %r3; addc.u32 %r0, 0, 0;",
       [](u64 a, u64 b, u64 c) { return ((u64{u32(a)} * u32(b) >> 32) + u32(c)) >> 32; });
  each("add.cc.u32 %r4, %r1, %r2; madc.lo.cc.u32 %r5, %r3, %r3, %r2; addc.u32 %r0, 0, 0;",
       [](u64 a, u64 b, u64 c) {
         const u64 carry = (u64{u32(a)} + u32(b)) >> 32;
         return (u64{u32(c * c)} + u32(b) + carry) >> 32;
       });
}

TEST(IntegerInstructions, products_of_24_bits_have_48) {
  const auto s24 = [](u64 a) { return s64{s32(u32(a) << 8) >> 8}; };
  each("mul24.hi.u32 %r0, %r1, %r2;",
       [](u64 a, u64 b, u64) { return (a & 0xffffff) * (b & 0xffffff) >> 16; });
  each("mul24.hi.s32 %r0, %r1, %r2;",
       [&](u64 a, u64 b, u64) { return static_cast<u64>(s24(a) * s24(b)) >> 16; });
  each("mad24.lo.u32 %r0, %r1, %r2, %r3;",
       [](u64 a, u64 b, u64 c) { return (a & 0xffffff) * (b & 0xffffff) + c; });
  each("mad24.hi.s32 %r0, %r1, %r2, %r3;",
       [&](u64 a, u64 b, u64 c) { return (static_cast<u64>(s24(a) * s24(b)) >> 16) + c; });
  EXPECT_EQ(word("mad24.hi.sat.s32 %r0, %r1, %r2, %r3;", 0x7fffff, 0x7fffff, 0x7fffffff),
            0x7fffffffu);
}

TEST(IntegerInstructions, high_and_wide_products_keep_all_bits) {
  each("mul.hi.u32 %r0, %r1, %r2;", [](u64 a, u64 b, u64) { return (u64{u32(a)} * u32(b)) >> 32; });
  each("mul.hi.s32 %r0, %r1, %r2;",
       [](u64 a, u64 b, u64) { return static_cast<u64>(s64{s32(a)} * s32(b)) >> 32; });
  each64("mul.wide.s32 %rd0, %r1, %r2;", [](u64 a, u64 b, u64) { return s64{s32(a)} * s32(b); });
  each64("mul.wide.u32 %rd0, %r1, %r2;", [](u64 a, u64 b, u64) { return u64{u32(a)} * u32(b); });
  each64("mad.wide.s32 %rd0, %r1, %r2, %rd3;",
         [](u64 a, u64 b, u64 c) { return u64(s64{s32(a)} * s32(b)) + c; });
  each64("mul.hi.u64 %rd0, %rd1, %rd2;",
         [](u64 a, u64 b, u64) { return u64((static_cast<unsigned __int128>(a) * b) >> 64); });
}

TEST(IntegerInstructions, division_truncates_and_survives_zero) {
  each("div.u32 %r0, %r1, %r2;", [](u64 a, u64 b, u64) { return u32(b) ? u32(a) / u32(b) : ~0u; });
  each("rem.u32 %r0, %r1, %r2;",
       [](u64 a, u64 b, u64) { return u32(b) ? u32(a) % u32(b) : u32(a); });
  each("div.s32 %r0, %r1, %r2;",
       [](u64 a, u64 b, u64) { return u32(b) == 0 ? ~0u : u32(s64{s32(a)} / s64{s32(b)}); });
  each("rem.s32 %r0, %r1, %r2;",
       [](u64 a, u64 b, u64) { return u32(b) ? u32(s64{s32(a)} % s64{s32(b)}) : u32(a); });
  EXPECT_EQ(word("div.s32 %r0, %r1, %r2;", 0x80000000u, 0xffffffffu), 0x80000000u);
  EXPECT_EQ(word64("div.s64 %rd0, %rd1, %rd2;", u64(-7), 2), u64(-3));
}

TEST(IntegerInstructions, minimum_maximum_and_magnitude_know_their_sign) {
  each("min.s32 %r0, %r1, %r2;", [](u64 a, u64 b, u64) { return u32(std::min(s32(a), s32(b))); });
  each("max.u32 %r0, %r1, %r2;", [](u64 a, u64 b, u64) { return std::max(u32(a), u32(b)); });
  each64("min.s64 %rd0, %rd1, %rd2;", [](u64 a, u64 b, u64) { return std::min(s64(a), s64(b)); });
  each64("max.u64 %rd0, %rd1, %rd2;", [](u64 a, u64 b, u64) { return std::max(a, b); });
  EXPECT_EQ(word("min.s16 %rs4, %rs1, %rs2; cvt.u32.u16 %r0, %rs4;", 0xffff, 1), 0xffffu);
  EXPECT_EQ(word("min.u16x2 %r0, %r1, %r2;", 0x00058000, 0x00047fff), 0x00047fffu);
  EXPECT_EQ(word("min.s16x2 %r0, %r1, %r2;", 0x00058000, 0x00047fff), 0x00048000u);
  EXPECT_EQ(word("abs.s32 %r0, %r1;", u32(-5)), 5u);
  EXPECT_EQ(word("add.sat.s32 %r0, %r1, %r2;", 0x7fffffff, 1), 0x7fffffffu);
  EXPECT_EQ(word("sub.sat.s32 %r0, %r1, %r2;", 0x80000000, 1), 0x80000000u);
  EXPECT_EQ(word("add.u16x2 %r0, %r1, %r2;", 0xffff0001, 0x0001ffff), 0u);
}

TEST(IntegerInstructions, sad_adds_the_distance_of_two_numbers_of_its_width) {
  using s16 = std::int16_t;
  const auto distance = [](auto a, auto b) {
    return a < b ? static_cast<u64>(b) - static_cast<u64>(a)
                 : static_cast<u64>(a) - static_cast<u64>(b);
  };
  const std::string narrow = " %rs4, %rs1, %rs2, %rs3; cvt.u32.u16 %r0, %rs4;";
  each("sad.u16" + narrow,
       [&](u64 a, u64 b, u64 c) { return (c + distance(a & 0xffff, b & 0xffff)) & 0xffff; });
  each("sad.s16" + narrow, [&](u64 a, u64 b, u64 c) {
    return (c + distance(static_cast<s16>(a), static_cast<s16>(b))) & 0xffff;
  });
  each("sad.u32 %r0, %r1, %r2, %r3;",
       [&](u64 a, u64 b, u64 c) { return c + distance(u32(a), u32(b)); });
  each("sad.s32 %r0, %r1, %r2, %r3;",
       [&](u64 a, u64 b, u64 c) { return c + distance(s32(a), s32(b)); });
  each64("sad.u64 %rd0, %rd1, %rd2, %rd3;",
         [&](u64 a, u64 b, u64 c) { return c + distance(a, b); });
  each64("sad.s64 %rd0, %rd1, %rd2, %rd3;",
         [&](u64 a, u64 b, u64 c) { return c + distance(s64(a), s64(b)); });
  EXPECT_EQ(word("sad.s16" + narrow, 0x8000, 0x7fff, 2), 1u);  // 65535 + 2, of 16 bits
}

TEST(IntegerInstructions, dot_products_give_each_word_its_own_sign) {
  const auto part = [](u64 word, int k, int bits, bool is_signed) {
    const u64 low = (u32(word) >> (bits * k)) & ((u64{1} << bits) - 1);
    return is_signed && low >> (bits - 1) ? s64(low) - (s64{1} << bits) : s64(low);
  };
  for (const bool left : {false, true})
    for (const bool right : {false, true}) {
      const std::string types = std::string(left ? ".s32" : ".u32") + (right ? ".s32" : ".u32");
      each("dp4a" + types + " %r0, %r1, %r2, %r3;", [&](u64 a, u64 b, u64 c) {
        s64 sum = s64(c);
        for (int k = 0; k < 4; ++k) sum += part(a, k, 8, left) * part(b, k, 8, right);
        return sum;
      });
      for (const int first : {0, 2})
        each((first ? "dp2a.hi" : "dp2a.lo") + types + " %r0, %r1, %r2, %r3;",
             [&](u64 a, u64 b, u64 c) {
               s64 sum = s64(c);
               for (int k = 0; k < 2; ++k)
                 sum += part(a, k, 16, left) * part(b, first + k, 8, right);
               return sum;
             });
    }
  EXPECT_EQ(word("dp4a.s32.u32 %r0, %r1, %r2, %r3;", 0x000000ff, 0x00000080, 0), u32(-128));
  EXPECT_EQ(word("dp2a.hi.u32.u32 %r0, %r1, %r2, %r3;", 0x00020001, 0x04030000, 5), 16u);
}

TEST(IntegerInstructions, only_lanes_that_take_part_are_written) {
  Lanes64 a;
  for (std::size_t i = 0; i < 32; ++i) a[i] = i;
  const Computed got =
      compute("setp.lt.u32 %p1, %r1, 5; @%p1 add.u32 %r0, %r1, 100; @!%p1 sub.u32 %r0, %r1, 1;", a);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(got.r[i], i < 5 ? i + 100 : i - 1);
}

}  // namespace
}  // namespace microscale::emulator
