#include <bit>
#include <cmath>

#include "emulator/run_ptx.hpp"
#include "formats/half.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

TEST(Conversions, integers_are_cut_extended_or_saturated) {
  EXPECT_EQ(word("cvt.s32.s8 %r0, %r1;", 0x1ff), 0xffffffffu);
  EXPECT_EQ(word("cvt.u32.u8 %r0, %r1;", 0x1ff), 0xffu);
  EXPECT_EQ(word("cvt.s16.s8 %rs4, %rs1; cvt.u32.u16 %r0, %rs4;", 0x80), 0xff80u);
  EXPECT_EQ(word("cvt.u16.u32 %rs4, %r1; cvt.u32.u16 %r0, %rs4;", 0x12345678), 0x5678u);
  EXPECT_EQ(word64("cvt.s64.s32 %rd0, %r1;", 0x80000000), 0xffffffff80000000u);
  EXPECT_EQ(word64("cvt.u64.u32 %rd0, %r1;", 0x80000000), 0x80000000u);
  EXPECT_EQ(word("cvt.u32.u64 %r0, %rd1;", 0x123456789abcdef0), 0x9abcdef0u);
  EXPECT_EQ(word("cvt.sat.u8.s32 %r0, %r1;", 0xffffffff), 0u);
  EXPECT_EQ(word("cvt.sat.u8.s32 %r0, %r1;", 300), 255u);
  EXPECT_EQ(word("cvt.sat.s16.s32 %rs4, %r1; cvt.u32.u16 %r0, %rs4;", 0x80000000), 0x8000u);
  EXPECT_EQ(word("cvt.s8.s32 %r0, %r1;", 0x80), 0xffffff80u);
}

TEST(Conversions, floats_become_integers_by_each_rounding_and_saturate) {
  const auto to = [](const std::string& how, float x) {
    return word("cvt." + how + ".f32 %r0, %f1;", bits(x));
  };
  EXPECT_EQ(to("rni.s32", 2.5f), 2u);
  EXPECT_EQ(to("rni.s32", 3.5f), 4u);
  EXPECT_EQ(to("rzi.s32", -2.9f), static_cast<std::uint32_t>(-2));
  EXPECT_EQ(to("rmi.s32", -2.1f), static_cast<std::uint32_t>(-3));
  EXPECT_EQ(to("rpi.s32", 2.1f), 3u);
  EXPECT_EQ(to("rzi.s32", 3e9f), 0x7fffffffu);
  EXPECT_EQ(to("rzi.u32", -1.0f), 0u);
  EXPECT_EQ(to("rzi.u32", 4e9f), 4000000000u);
  EXPECT_EQ(to("rzi.s32", NAN), 0u);
  EXPECT_EQ(word64("cvt.rzi.s64.f32 %rd0, %f1;", bits(NAN)), 0x8000000000000000u);
  EXPECT_EQ(word64("cvt.rzi.u64.f64 %rd0, %fd1;", bits(1e19)), 10000000000000000000u);
  EXPECT_EQ(word("cvt.rni.f32.f32 %f0, %f1; mov.b32 %r0, %f0;", bits(-0.5f)), 0x80000000u);
}

TEST(Conversions, integers_become_floats_by_each_rounding) {
  EXPECT_EQ(word("cvt.rn.f32.u32 %f0, %r1; mov.b32 %r0, %f0;", 0x01000001), bits(0x1p24f));
  EXPECT_EQ(word("cvt.rp.f32.u32 %f0, %r1; mov.b32 %r0, %f0;", 0x01000001), bits(0x1.000002p24f));
  EXPECT_EQ(
      word("cvt.rz.f32.s32 %f0, %r1; mov.b32 %r0, %f0;", static_cast<std::uint32_t>(-0x01000003)),
      bits(-0x1.000002p24f));
  EXPECT_EQ(word("cvt.rn.f32.s64 %f0, %rd1; mov.b32 %r0, %f0;", ~std::uint64_t{0}), bits(-1.0f));
  EXPECT_EQ(word("cvt.rn.f16.s32 %rs4, %r1; cvt.u32.u16 %r0, %rs4;", 2049), 0x6800u);
  EXPECT_EQ(word("cvt.rn.f16.u16 %rs4, %rs1; cvt.u32.u16 %r0, %rs4;", 0xffff), 0x7c00u);
}

TEST(Conversions, toward_zero_never_grows) {
  EXPECT_EQ(word("cvt.rz.f16.f32 %rs4, %f1; cvt.u32.u16 %r0, %rs4;", bits(0x1.ffcp0f + 0x1p-12f)),
            0x3fffu);
  EXPECT_EQ(word("cvt.rn.f16.f32 %rs4, %f1; cvt.u32.u16 %r0, %rs4;", bits(0x1.ffep0f + 0x1p-20f)),
            0x4000u);
  EXPECT_EQ(word("cvt.rz.f16.f32 %rs4, %f1; cvt.u32.u16 %r0, %rs4;", bits(-1e6f)), 0xfbffu);
  EXPECT_EQ(word("cvt.rz.bf16.f32 %rs4, %f1; cvt.u32.u16 %r0, %rs4;", 0x3f80ffff), 0x3f80u);
  EXPECT_EQ(word("cvt.rz.f32.f64 %f0, %fd1; mov.b32 %r0, %f0;", bits(1.0 + 0x1.8p-24)), bits(1.0f));
  EXPECT_EQ(word("cvt.rn.f32.f64 %f0, %fd1; mov.b32 %r0, %f0;", bits(1.0 + 0x1.8p-24)),
            bits(0x1.000002p0f));
}

TEST(Conversions, every_half_widens_and_returns) {
  for (std::uint32_t first = 0; first < 0x10000; first += 32 * 16) {
    Lanes64 a;
    for (std::uint32_t i = 0; i < 32; ++i) a[i] = first + 16 * i + (first >> 9) % 16;
    const Computed half = compute(
        "cvt.f32.f16 %f0, %rs1; mov.b32 %r0, %f0; cvt.rn.f16.f32 %rs4, %f0; cvt.u64.u16 %rd0, "
        "%rs4;",
        a);
    const Computed brain = compute(
        "cvt.f32.bf16 %f0, %rs1; mov.b32 %r0, %f0; cvt.rn.bf16.f32 %rs4, %f0; cvt.u64.u16 %rd0, "
        "%rs4;",
        a);
    for (std::size_t i = 0; i < 32; ++i) {
      const auto h = static_cast<std::uint16_t>(a[i]);
      const float value = f16_to_float(h), other = bf16_to_float(h);
      ASSERT_EQ(half.r[i], value != value ? 0x7fffffffu : bits(value)) << h;
      ASSERT_EQ(half.rd[i], value != value ? 0x7fffu : h);
      ASSERT_EQ(brain.r[i], static_cast<std::uint32_t>(h) << 16) << h;  // NaN as well
      ASSERT_EQ(brain.rd[i], other != other ? 0x7fffu : h);
    }
  }
}

TEST(Conversions, pairs_take_the_first_into_the_high_half) {
  EXPECT_EQ(word("cvt.rn.f16x2.f32 %r0, %f1, %f2;", bits(1.0f), bits(2.0f)), 0x3c004000u);
  EXPECT_EQ(word("cvt.rn.bf16x2.f32 %r0, %f1, %f2;", bits(1.0f), bits(2.0f)), 0x3f804000u);
  EXPECT_EQ(word("cvt.rn.relu.bf16x2.f32 %r0, %f1, %f2;", bits(-1.0f), bits(2.0f)), 0x00004000u);
  EXPECT_EQ(word("cvt.rna.tf32.f32 %r0, %f1;", 0x3f801000), 0x3f802000u);
}

}  // namespace
}  // namespace microscale::emulator
