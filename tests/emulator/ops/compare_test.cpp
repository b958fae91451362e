#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

constexpr std::uint32_t nan = 0x7fc00000, one = 0x3f800000, two = 0x40000000,
                        minus_zero = 0x80000000;

bool holds(const std::string& compare, std::uint64_t a, std::uint64_t b) {
  return word("setp." + compare + " %p1, " +
                  (compare.find("f32") != compare.npos ? "%f1, %f2" : "%r1, %r2") +
                  "; selp.b32 %r0, 1, 0, %p1;",
              a, b) == 1;
}

TEST(CompareInstructions, integers_compare_by_their_sign) {
  EXPECT_TRUE(holds("lt.s32", 0xffffffff, 0));
  EXPECT_FALSE(holds("lt.u32", 0xffffffff, 0));
  EXPECT_TRUE(holds("hi.u32", 0xffffffff, 0));
  EXPECT_TRUE(holds("le.s32", 5, 5));
  EXPECT_TRUE(holds("ge.u32", 5, 5));
  EXPECT_TRUE(holds("ne.b32", 5, 6));
  EXPECT_EQ(word("setp.lt.s16 %p1, %rs1, %rs2; selp.b32 %r0, 1, 0, %p1;", 0xffff, 1), 1u);
  EXPECT_EQ(word("setp.gt.s64 %p1, %rd1, %rd2; selp.b32 %r0, 1, 0, %p1;", 1, ~std::uint64_t{0}),
            1u);
}

TEST(CompareInstructions, unordered_ones_hold_for_nan_and_ordered_ones_do_not) {
  for (const char* ordered : {"eq", "ne", "lt", "le", "gt", "ge", "num"}) {
    EXPECT_FALSE(holds(std::string(ordered) + ".f32", nan, one)) << ordered;
    EXPECT_FALSE(holds(std::string(ordered) + ".f32", one, nan)) << ordered;
  }
  for (const char* unordered : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"})
    EXPECT_TRUE(holds(std::string(unordered) + ".f32", nan, one)) << unordered;
  EXPECT_TRUE(holds("eq.f32", minus_zero, 0));
  EXPECT_TRUE(holds("lt.f32", one, two));
  EXPECT_FALSE(holds("ltu.f32", two, one));
  EXPECT_TRUE(holds("num.f32", one, two));
  EXPECT_TRUE(holds("eq.ftz.f32", 1, 0));
  EXPECT_FALSE(holds("eq.f32", 1, 0));
}

TEST(CompareInstructions, a_pair_of_predicates_is_the_result_and_its_opposite_combined) {
  EXPECT_EQ(word("setp.eq.u32 %p3, %r1, %r1; setp.lt.and.u32 %p1|%p2, %r1, %r2, %p3; selp.b32 %r4, "
                 "1, 0, %p1;"
                 "selp.b32 %r5, 2, 0, %p2; or.b32 %r0, %r4, %r5;",
                 1, 2),
            1u);
  EXPECT_EQ(word("setp.ne.u32 %p3, %r1, %r1; setp.lt.and.u32 %p1|%p2, %r1, %r2, %p3; selp.b32 %r4, "
                 "1, 0, %p1;"
                 "selp.b32 %r5, 2, 0, %p2; or.b32 %r0, %r4, %r5;",
                 1, 2),
            0u);
  EXPECT_EQ(word("setp.ne.u32 %p3, %r1, %r1; setp.gt.xor.u32 %p1|%p2, %r1, %r2, !%p3; selp.b32 "
                 "%r4, 1, 0, %p1;"
                 "selp.b32 %r5, 2, 0, %p2; or.b32 %r0, %r4, %r5;",
                 1, 2),
            1u);
}

TEST(CompareInstructions, set_and_slct_make_values) {
  EXPECT_EQ(word("set.lt.u32.s32 %r0, %r1, %r2;", 0xffffffff, 0), 0xffffffffu);
  EXPECT_EQ(word("set.lt.f32.s32 %f4, %r1, %r2; mov.b32 %r0, %f4;", 0xffffffff, 0), one);
  EXPECT_EQ(word("slct.b32.s32 %r0, %r1, %r2, %r3;", 10, 20, 0), 10u);
  EXPECT_EQ(word("slct.b32.s32 %r0, %r1, %r2, %r3;", 10, 20, 0x80000000), 20u);
  EXPECT_EQ(word("slct.b32.f32 %r0, %r1, %r2, %f3;", 10, 20, nan), 20u);
}

TEST(CompareInstructions, testp_sorts_floats) {
  const auto is = [](const std::string& what, std::uint32_t bits) {
    return word("testp." + what + ".f32 %p1, %f1; selp.b32 %r0, 1, 0, %p1;", bits) == 1;
  };
  EXPECT_TRUE(is("finite", one));
  EXPECT_TRUE(is("infinite", 0xff800000));
  EXPECT_TRUE(is("notanumber", nan));
  EXPECT_TRUE(is("subnormal", 1));
  EXPECT_FALSE(is("normal", 1));
  EXPECT_TRUE(is("number", 0));
}

TEST(CompareInstructions, halves_compare_one_by_one) {
  EXPECT_EQ(word("setp.lt.f16x2 %p1|%p2, %r1, %r2; selp.b32 %r4, 1, 0, %p1; selp.b32 %r5, 2, 0, "
                 "%p2; or.b32 %r0, %r4, %r5;",
                 0x40003c00, 0x3c004000),
            1u);
  EXPECT_EQ(word("setp.gt.bf16 %p1, %rs1, %rs2; selp.b32 %r0, 1, 0, %p1;", 0x4000, 0x3f80), 1u);
}

TEST(CompareInstructions, predicates_have_their_own_logic) {
  EXPECT_EQ(word("setp.eq.u32 %p1, %r1, 1; setp.eq.u32 %p2, %r2, 1; and.pred %p3, %p1, !%p2; "
                 "xor.pred %p4, %p3, %p1;"
                 "mov.pred %p5, %p3; selp.b32 %r4, 1, 0, %p5; selp.b32 %r5, 2, 0, %p4; or.b32 %r0, "
                 "%r4, %r5;",
                 1, 0),
            1u);
}

}  // namespace
}  // namespace microscale::emulator
