#include <bit>
#include <cmath>

#include "emulator/run_ptx.hpp"
#include "formats/half.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

// What a double, rounded once to 11 (8) bits by trying the neighbours, gives.
std::uint32_t nearest(double value, bool brain) {
  const auto back = [brain](std::uint32_t h) {
    return static_cast<double>(brain ? bf16_to_float(static_cast<std::uint16_t>(h))
                                     : f16_to_float(static_cast<std::uint16_t>(h)));
  };
  const std::uint32_t first =
      brain ? float_to_bf16(static_cast<float>(value)) : float_to_f16(static_cast<float>(value));
  std::uint32_t best = first;
  for (const std::uint32_t h : {first - 1, first + 1}) {
    const double now = std::fabs(back(best) - value), then = std::fabs(back(h) - value);
    if (then < now || (then == now && !(h & 1))) best = h;
  }
  return best & 0xffff;
}

void fused_is_rounded_once(bool brain) {
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    Lanes64 a, b, c;
    for (std::size_t i = 0; i < 32; ++i) {
      const std::uint64_t mixed = (seed * 32 + i) * 0x9e3779b97f4a7c15u;
      const std::uint32_t mask = brain ? 0x83ff : 0x8fff,
                          base = brain ? 0x3c00 : 0x3000;  // of middling size
      a[i] = ((mixed >> 10) & mask) + base;
      b[i] = ((mixed >> 24) & mask) + base;
      c[i] = ((mixed >> 38) & mask) + base;
    }
    const Computed got =
        compute(brain ? "fma.rn.bf16 %rs4, %rs1, %rs2, %rs3; cvt.u32.u16 %r0, %rs4;"
                      : "fma.rn.f16 %rs4, %rs1, %rs2, %rs3; cvt.u32.u16 %r0, %rs4;",
                a, b, c);
    for (std::size_t i = 0; i < 32; ++i) {
      const auto value = [brain](std::uint64_t h) {
        return static_cast<double>(brain ? bf16_to_float(static_cast<std::uint16_t>(h))
                                         : f16_to_float(static_cast<std::uint16_t>(h)));
      };
      const double exact = value(a[i]) * value(b[i]) + value(c[i]);  // fits 53 bits for these
      ASSERT_EQ(got.r[i], nearest(exact, brain)) << std::hex << a[i] << " " << b[i] << " " << c[i];
    }
  }
}

TEST(PackedInstructions, a_fused_half_is_rounded_once) { fused_is_rounded_once(false); }
TEST(PackedInstructions, a_fused_bf16_is_rounded_once) { fused_is_rounded_once(true); }

TEST(PackedInstructions, halves_work_side_by_side) {
  EXPECT_EQ(word("add.rn.f16x2 %r0, %r1, %r2;", 0x3c004000, 0x3c003c00), 0x40004200u);
  EXPECT_EQ(word("mul.rn.f16x2 %r0, %r1, %r2;", 0x40004000, 0x42003800), 0x46003c00u);
  EXPECT_EQ(word("sub.rn.f16x2 %r0, %r1, %r2;", 0x3c003c00, 0x3c004000), 0x0000bc00u);
  EXPECT_EQ(word("fma.rn.bf16x2 %r0, %r1, %r2, %r3;", 0x3f804000, 0x40403f80, 0x3f803f80),
            0x40804040u);
  EXPECT_EQ(word("fma.rn.relu.bf16x2 %r0, %r1, %r2, %r3;", 0xbf804000, 0x40403f80, 0x3f803f80),
            0x00004040u);
  EXPECT_EQ(word("abs.bf16x2 %r0, %r1;", 0xbf80c000), 0x3f804000u);
  EXPECT_EQ(word("neg.f16x2 %r0, %r1;", 0x3c008000), 0xbc000000u);
}

TEST(PackedInstructions, halves_are_added_to_singles_and_rounded_once) {
  const auto bits = [](float value) { return std::uint64_t{std::bit_cast<std::uint32_t>(value)}; };
  const float tiny = 0x1p-24f;
  const std::uint64_t one_f16 = 0x3c00, three_bf16 = 0x4040;
  EXPECT_EQ(word("add.f32.f16 %f4, %rs1, %f2; mov.b32 %r0, %f4;", one_f16, bits(tiny)), bits(1.0f));
  EXPECT_EQ(word("add.rp.f32.f16 %f4, %rs1, %f2; mov.b32 %r0, %f4;", one_f16, bits(tiny)),
            bits(std::nextafterf(1.0f, 2.0f)));
  EXPECT_EQ(word("sub.rn.f32.bf16 %f4, %rs1, %f2; mov.b32 %r0, %f4;", three_bf16, bits(0.1f)),
            bits(3.0f - 0.1f));
  EXPECT_EQ(word("add.sat.f32.bf16 %f4, %rs1, %f2; mov.b32 %r0, %f4;", three_bf16, bits(-7.0f)),
            0u);
  EXPECT_EQ(word("fma.rn.f32.bf16 %f4, %rs1, %rs2, %f3; mov.b32 %r0, %f4;", three_bf16, three_bf16,
                 bits(0.1f)),
            bits(std::fmaf(3.0f, 3.0f, 0.1f)));
  EXPECT_EQ(word("fma.rz.f32.f16 %f4, %rs1, %rs2, %f3; mov.b32 %r0, %f4;", one_f16, one_f16,
                 bits(-tiny / 4)),
            bits(std::nextafterf(1.0f, 0.0f)));
  EXPECT_EQ(word("add.f32.f16 %f4, %rs1, %f2; mov.b32 %r0, %f4;", 0x7e01, bits(1.0f)), 0x7fffffffu);
}

TEST(PackedInstructions, extremes_prefer_numbers_and_know_the_zeros) {
  EXPECT_EQ(word("min.f16x2 %r0, %r1, %r2;", 0x7e008000, 0x3c000000), 0x3c008000u);
  EXPECT_EQ(word("min.NaN.f16x2 %r0, %r1, %r2;", 0x7e008000, 0x3c000000), 0x7fff8000u);
  EXPECT_EQ(word("max.bf16x2 %r0, %r1, %r2;", 0xbf804000, 0xc0003f80), 0xbf804000u);
  EXPECT_EQ(word("max.xorsign.abs.f16x2 %r0, %r1, %r2;", 0xc2004000, 0x40003c00), 0xc2004000u);
}

TEST(PackedInstructions, overflow_is_infinity_and_nan_the_canonical_one) {
  EXPECT_EQ(word("add.rn.f16x2 %r0, %r1, %r2;", 0x7bff7c00, 0x7bfffc00), 0x7c007fffu);
  EXPECT_EQ(word("add.rn.sat.f16x2 %r0, %r1, %r2;", 0x7bff7e00, 0x7bff3c00), 0x3c000000u);
}

}  // namespace
}  // namespace microscale::emulator
