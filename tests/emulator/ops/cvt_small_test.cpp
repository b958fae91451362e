#include <bit>

#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(ScaleConversions, scales_are_exponents_rounded_down_or_up) {
  const auto scale = [](const std::string& how, std::uint32_t value) {
    return word("cvt." + how + ".ue8m0x2.f32 %rs4, %f1, %f2; cvt.u32.u16 %r0, %rs4;", value,
                bits(1.0f)) >>
           8;
  };
  EXPECT_EQ(scale("rz", bits(1.5f)), 127u);
  EXPECT_EQ(scale("rp", bits(1.5f)), 128u);
  EXPECT_EQ(scale("rp", bits(2.0f)), 128u);
  EXPECT_EQ(scale("rz", bits(-3.0f)), 128u);
  EXPECT_EQ(scale("rp", 0), 0u);
  EXPECT_EQ(scale("rp", 0x00400000), 0u);
  EXPECT_EQ(scale("rp", 0x00400001), 1u);
  EXPECT_EQ(scale("rp.satfinite", 0x7f800000), 254u);
  EXPECT_EQ(scale("rz", 0x7f800000), 255u);
  EXPECT_EQ(scale("rz.satfinite", 0x7fc00000), 255u);
  EXPECT_EQ(scale("rp.satfinite", 0x7f7fffff), 254u);
  EXPECT_EQ(word("cvt.rn.bf16x2.ue8m0x2 %r0, %rs1;", 0x7f00), 0x3f800040u);
  EXPECT_EQ(word("cvt.rn.bf16x2.ue8m0x2 %r0, %rs1;", 0xff80), 0x7fff4000u);
}

TEST(CvtPack, integers_are_saturated_and_stand_below_c) {
  EXPECT_EQ(word("cvt.pack.sat.s8.s32.b32 %r0, %r1, %r2, %r3;", 300, 0xffffff00, 0x12345678),
            0x56787f80u);
  EXPECT_EQ(word("cvt.pack.sat.u8.s32.b32 %r0, %r1, %r2, %r3;", 300, 0xffffff00, 1), 0x0001ff00u);
  EXPECT_EQ(word("cvt.pack.sat.s4.s32.b32 %r0, %r1, %r2, %r3;", 5, 0xffffffff, 0xabcdef),
            0xabcdef5fu);
  EXPECT_EQ(word("cvt.pack.sat.u2.s32.b32 %r0, %r1, %r2, %r3;", 9, 1, 0xf), 0xfdu);
  EXPECT_EQ(word("cvt.pack.sat.s16.s32 %r0, %r1, %r2;", 0x7fffffff, 0xfffffffe), 0x7ffffffeu);
}

}  // namespace
}  // namespace microscale::emulator
