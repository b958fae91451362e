#include <bit>
#include <cmath>

#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }
float real(const std::string& op, float a, float b = 0, float c = 0) {
  return std::bit_cast<float>(word(op + " mov.b32 %r0, %f0;", bits(a), bits(b), bits(c)));
}

TEST(FloatInstructions, round_once_to_nearest_even) {
  EXPECT_EQ(real("add.rn.f32 %f0, %f1, %f2;", 1.0f, 0x1p-24f), 1.0f);
  EXPECT_EQ(real("add.f32 %f0, %f1, %f2;", 0x1.000002p0f, 0x1p-24f), 0x1.000004p0f);
  EXPECT_EQ(real("sub.f32 %f0, %f1, %f2;", 3.0f, 5.0f), -2.0f);
  EXPECT_EQ(real("mul.rn.f32 %f0, %f1, %f2;", 1.1f, 1.3f), 1.1f * 1.3f);
  EXPECT_EQ(real("fma.rn.f32 %f0, %f1, %f2, %f3;", 0x1.000002p0f, 0x1.000002p0f, -0x1.000004p0f),
            0x1p-46f);
  EXPECT_EQ(real("div.rn.f32 %f0, %f1, %f2;", 1.0f, 3.0f), 1.0f / 3.0f);
  EXPECT_EQ(real("rcp.rn.f32 %f0, %f1;", 3.0f), 1.0f / 3.0f);
  EXPECT_EQ(real("sqrt.rn.f32 %f0, %f1;", 2.0f), std::sqrt(2.0f));
}

TEST(FloatInstructions, pairs_of_fp32_are_two_numbers) {
  const auto pair = [](float low, float high) {
    return bits(low) | std::uint64_t{bits(high)} << 32;
  };
  const auto got = [&](const std::string& op, std::uint64_t a, std::uint64_t b,
                       std::uint64_t c = 0) {
    Lanes64 x{}, y{}, z{};
    x.fill(a), y.fill(b), z.fill(c);
    return compute(op, x, y, z).rd[31];
  };
  EXPECT_EQ(got("add.rn.f32x2 %rd0, %rd1, %rd2;", pair(1, 2), pair(0x1p-24f, 3)), pair(1, 5));
  EXPECT_EQ(got("add.rp.f32x2 %rd0, %rd1, %rd2;", pair(1, 2), pair(0x1p-60f, 3)),
            pair(0x1.000002p0f, 5));
  EXPECT_EQ(got("sub.f32x2 %rd0, %rd1, %rd2;", pair(1, 2), pair(4, -3)), pair(-3, 5));
  EXPECT_EQ(got("mul.rn.ftz.f32x2 %rd0, %rd1, %rd2;", pair(0x1p-100f, 2), pair(0x1p-40f, -3)),
            pair(0, -6));
  EXPECT_EQ(got("fma.rn.f32x2 %rd0, %rd1, %rd2, %rd3;", pair(0x1.000002p0f, 2),
                pair(0x1.000002p0f, 3), pair(-0x1.000004p0f, 1)),
            pair(0x1p-46f, 7));
}

TEST(FloatInstructions, round_as_told) {
  EXPECT_EQ(real("add.rz.f32 %f0, %f1, %f2;", 1.0f, 0x1.8p-24f), 1.0f);
  EXPECT_EQ(real("add.rp.f32 %f0, %f1, %f2;", 1.0f, 0x1p-60f), 0x1.000002p0f);
  EXPECT_EQ(real("add.rm.f32 %f0, %f1, %f2;", 1.0f, -0x1p-60f), 0x1.fffffep-1f);
  EXPECT_EQ(real("mul.rz.f32 %f0, %f1, %f2;", 0x1p127f, 4.0f), 0x1.fffffep127f);
  EXPECT_EQ(real("fma.rp.f32 %f0, %f1, %f2, %f3;", 1.0f, 1.0f, 0x1p-100f), 0x1.000002p0f);
  EXPECT_EQ(real("div.rm.f32 %f0, %f1, %f2;", 2.0f, 3.0f), 0x1.555554p-1f);
  EXPECT_EQ(real("sqrt.rz.f32 %f0, %f1;", 3.0f), 0x1.bb67aep0f);
}

TEST(FloatInstructions, flush_and_saturate_when_told) {
  EXPECT_EQ(real("add.f32 %f0, %f1, %f2;", 0x1p-140f, 0.0f), 0x1p-140f);
  EXPECT_EQ(real("add.ftz.f32 %f0, %f1, %f2;", 0x1p-140f, 0.0f), 0.0f);
  EXPECT_EQ(word("mul.ftz.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", bits(-0x1p-100f), bits(0x1p-40f)),
            0x80000000u);
  EXPECT_EQ(real("add.sat.f32 %f0, %f1, %f2;", 3.0f, 0.0f), 1.0f);
  EXPECT_EQ(real("mul.rn.sat.f32 %f0, %f1, %f2;", -3.0f, 1.0f), 0.0f);
  EXPECT_EQ(word("add.sat.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x7fc00000, 0), 0u);
}

TEST(FloatInstructions, nan_is_the_canonical_one) {
  EXPECT_EQ(word("add.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0xffc12345, bits(1.0f)), 0x7fffffffu);
  EXPECT_EQ(word("mul.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x7f800000, 0), 0x7fffffffu);
}

TEST(FloatInstructions, minimum_prefers_numbers_and_knows_the_zeros) {
  EXPECT_EQ(word("min.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0, 0x80000000), 0x80000000u);
  EXPECT_EQ(word("max.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x80000000, 0), 0u);
  EXPECT_EQ(real("min.f32 %f0, %f1, %f2;", -1.0f, 2.0f), -1.0f);
  EXPECT_EQ(word("max.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x7fc00000, bits(-1.0f)), bits(-1.0f));
  EXPECT_EQ(word("max.NaN.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x7fc00000, bits(-1.0f)),
            0x7fffffffu);
  EXPECT_EQ(word("min.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x7fc00000, 0xffffffff), 0x7fffffffu);
  EXPECT_EQ(real("max.xorsign.abs.f32 %f0, %f1, %f2;", -3.0f, 2.0f), -3.0f);
  EXPECT_EQ(real("max.f32 %f0, %f1, %f2, %f3;", 1.0f, 5.0f, 3.0f), 5.0f);
  EXPECT_EQ(real("abs.f32 %f0, %f1;", -3.0f), 3.0f);
  EXPECT_EQ(real("copysign.f32 %f0, %f1, %f2;", -0.0f, 2.0f), -2.0f);
}

TEST(FloatInstructions, doubles_are_the_hosts) {
  EXPECT_EQ(word64("fma.rn.f64 %fd0, %fd1, %fd2, %fd3; mov.b64 %rd0, %fd0;", bits(1.1), bits(1.3),
                   bits(-1.43)),
            bits(std::fma(1.1, 1.3, -1.43)));
  EXPECT_EQ(word64("div.rn.f64 %fd0, %fd1, %fd2; mov.b64 %rd0, %fd0;", bits(1.0), bits(3.0)),
            bits(1.0 / 3.0));
  EXPECT_EQ(word64("add.rp.f64 %fd0, %fd1, %fd2; mov.b64 %rd0, %fd0;", bits(1.0), bits(0x1p-80)),
            bits(0x1.0000000000001p0));
  EXPECT_EQ(word64("max.f64 %fd0, %fd1, %fd2; mov.b64 %rd0, %fd0;", bits(-0.0), bits(0.0)),
            bits(0.0));
}

}  // namespace
}  // namespace microscale::emulator
