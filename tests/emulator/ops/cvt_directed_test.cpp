// Conversions to FP16 and BF16 in every rounding, against what a rounding is: the neighbour of the
// number on the side that it names.
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "emulator/run_ptx.hpp"
#include "formats/half.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }
std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

long double value_of(std::uint32_t code, bool brain) {
  const auto h = static_cast<std::uint16_t>(code);
  return brain ? bf16_to_float(h) : f16_to_float(h);
}

/// The codes before and behind in the order of numbers, both zeros being one.
std::uint32_t below(std::uint32_t code) {
  return code == 0 ? 0x8001 : code & 0x8000 ? code + 1 : code - 1;
}
std::uint32_t above(std::uint32_t code) {
  return code == 0x8000 ? 1 : code & 0x8000 ? code - 1 : code + 1;
}

/// Whether `code` is what `x` rounds to.
bool rounds(long double x, std::uint32_t code, char rounding, bool brain) {
  const long double y = value_of(code, brain);
  if (y == x) return true;
  if (std::isinf(x)) return false;
  const bool negative = x < 0;
  const std::uint32_t infinity = brain ? 0x7f80 : 0x7c00, magnitude = code & 0x7fff;
  if (magnitude > infinity || (y != 0 && (y < 0) != negative)) return false;
  if (y == 0 && (code >> 15) != negative) return false;
  const auto next = [&](std::uint32_t c) { return value_of(c, brain); };
  if (rounding == 'z') rounding = negative ? 'p' : 'm';
  if (rounding == 'm') return y < x && (magnitude == infinity || next(above(code)) > x);
  if (rounding == 'p') return y > x && (magnitude == infinity || next(below(code)) < x);
  if (magnitude == infinity) {  // as if numbers went on: half a step beyond the largest
    const long double largest = next(infinity - 1), step = largest - next(infinity - 2);
    return std::fabs(x) >= largest + step / 2;
  }
  const std::uint32_t other = y < x ? above(code) : below(code);
  const long double far = (other & 0x7fff) == infinity
                              ? 2 * y - value_of(y < x ? below(code) : above(code), brain)
                              : next(other);
  const long double here = std::fabs(x - y), there = std::fabs(far - x);
  return here < there || (here == there && !(code & 1));
}

template <class Value>
void check(const std::string& from, const std::string& source, Value value) {
  for (const bool brain : {false, true}) {
    if (brain && (from == "u8" || from == "s8")) continue;
    for (const char rounding : {'n', 'z', 'm', 'p'}) {
      const std::string to = brain ? "bf16" : "f16";
      const std::string code = std::string("cvt.r") + rounding + "." + to + "." + from + " %rs4, " +
                               source + "; cvt.u32.u16 %r0, %rs4;";
      for (std::uint64_t seed = 1; seed < 40; ++seed) {
        Lanes64 a = edges(seed);
        for (std::uint64_t& each : a) each = seed % 3 == 0 ? each >> (each % 61) : each;
        const Computed got = compute(code, a);
        for (std::size_t i = 0; i < 32; ++i) {
          const long double x = value(a[i]);
          const std::uint64_t kept =
              brain ? 0x7fc0 | (a[i] >> 45 & 0x3f) : 0x7e00 | (a[i] >> 42 & 0x1ff);
          if (std::isnan(x))  // of FP64: sign and payload, quiet
            ASSERT_EQ(got.r[i], from == "f64" ? a[i] >> 63 << 15 | kept : 0x7fffu) << code;
          else
            ASSERT_TRUE(rounds(x, got.r[i], rounding, brain))
                << code << ": " << x << " became " << std::hex << got.r[i];
        }
      }
    }
  }
}

TEST(DirectedConversions, integers_become_the_neighbour_on_the_named_side) {
  check("u8", "%r1", [](std::uint64_t a) { return static_cast<std::uint8_t>(a); });
  check("s8", "%r1", [](std::uint64_t a) { return static_cast<std::int8_t>(a); });
  check("u16", "%rs1", [](std::uint64_t a) { return static_cast<std::uint16_t>(a); });
  check("s16", "%rs1", [](std::uint64_t a) { return static_cast<std::int16_t>(a); });
  check("u32", "%r1", [](std::uint64_t a) { return static_cast<std::uint32_t>(a); });
  check("s32", "%r1", [](std::uint64_t a) { return static_cast<std::int32_t>(a); });
  check("u64", "%rd1", [](std::uint64_t a) { return a; });
  check("s64", "%rd1", [](std::uint64_t a) { return static_cast<std::int64_t>(a); });
}

TEST(DirectedConversions, floats_become_the_neighbour_on_the_named_side) {
  check("f32", "%f1",
        [](std::uint64_t a) { return std::bit_cast<float>(static_cast<std::uint32_t>(a)); });
  // FP64 around the range of FP16, where its bits alone would seldom be.
  check("f64", "%fd1", [](std::uint64_t a) { return std::bit_cast<double>(a); });
  for (const double x : {65504.0, 65519.999, 65520.0, 1e300, 0x1p-24, 0x1p-25, 0x1.8p-25, 5e-324})
    for (const double sign : {1.0, -1.0})
      for (const char rounding : {'n', 'z', 'm', 'p'}) {
        const std::string code =
            std::string("cvt.r") + rounding + ".f16.f64 %rs4, %fd1; cvt.u32.u16 %r0, %rs4;";
        EXPECT_TRUE(rounds(sign * x, word(code, bits(sign * x)), rounding, false))
            << code << ": " << sign * x;
      }
}

TEST(DirectedConversions, halves_of_one_kind_become_the_other) {
  const auto convert = [](const std::string& how, std::uint32_t code) {
    return word("cvt." + how + " %rs4, %rs1; cvt.u32.u16 %r0, %rs4;", code);
  };
  EXPECT_EQ(convert("rz.bf16.f16", 0x3fff), 0x3fffu);  // 1.999 is 0x3ffff000 in FP32
  EXPECT_EQ(convert("rp.bf16.f16", 0x3fff), 0x4000u);
  EXPECT_EQ(convert("rn.bf16.f16", 0x3c04), 0x3f80u);  // a tie
  EXPECT_EQ(convert("rm.f16.bf16", 0xff7f), 0xfc00u);
  EXPECT_EQ(convert("rp.f16.bf16", 0xff7f), 0xfbffu);
  EXPECT_EQ(convert("rp.f16.bf16", 0x0001), 0x0001u);
  EXPECT_EQ(convert("rz.f16.bf16", 0x7fc0), 0x7fffu);
}

TEST(DirectedConversions, modifiers_saturate_flush_and_cut_off) {
  const auto from_float = [](const std::string& how, float x) {
    return word("cvt." + how + " %rs4, %f1; cvt.u32.u16 %r0, %rs4;", bits(x));
  };
  EXPECT_EQ(from_float("rp.f16.f32", 1e-40f), 0x0001u);
  EXPECT_EQ(from_float("rp.ftz.f16.f32", 1e-40f), 0x0001u);
  EXPECT_EQ(from_float("rm.ftz.bf16.f32", -1e-40f), 0x8000u);
  EXPECT_EQ(from_float("rn.ftz.bf16.f32", 1e-38f), 0x0000u);
  EXPECT_EQ(from_float("rp.sat.f16.f32", 0x1.fffffep-1f), 0x3c00u);
  EXPECT_EQ(from_float("rm.sat.f16.f32", 7.0f), 0x3c00u);
  EXPECT_EQ(from_float("rm.sat.f16.f32", -1e-30f), 0x0000u);
  EXPECT_EQ(from_float("rp.sat.f16.f32", NAN), 0x0000u);
  EXPECT_EQ(word("cvt.rp.sat.f16.s32 %rs4, %r1; cvt.u32.u16 %r0, %rs4;", 0xffffffff), 0u);
  EXPECT_EQ(word("cvt.rz.sat.f16.u8 %rs4, %r1; cvt.u32.u16 %r0, %rs4;", 0x105), 0x3c00u);
  EXPECT_EQ(word("cvt.rn.sat.f32.s8 %f0, %r1; mov.b32 %r0, %f0;", 0x80), 0u);
  EXPECT_EQ(word("cvt.rm.sat.f32.u64 %f0, %rd1; mov.b32 %r0, %f0;", 9), bits(1.0f));
  EXPECT_EQ(word64("cvt.rn.sat.f64.s16 %fd0, %rs1; mov.b64 %rd0, %fd0;", 3), bits(1.0));
  EXPECT_EQ(word64("cvt.rn.sat.f64.s64 %fd0, %rd1; mov.b64 %rd0, %fd0;", ~std::uint64_t{0}), 0u);
}

TEST(DirectedConversions, widening_is_exact_in_every_rounding) {
  EXPECT_EQ(word("cvt.rp.f32.bf16 %f0, %rs1; mov.b32 %r0, %f0;", 0x3f81), 0x3f810000u);
  EXPECT_EQ(word("cvt.rz.ftz.f32.bf16 %f0, %rs1; mov.b32 %r0, %f0;", 0x8001), 0x80000000u);
  EXPECT_EQ(word64("cvt.rm.f64.bf16 %fd0, %rs1; mov.b64 %rd0, %fd0;", 0x0001), bits(0x1p-133));
  EXPECT_EQ(word("cvt.sat.f32.f16 %f0, %rs1; mov.b32 %r0, %f0;", 0x4000), bits(1.0f));
  EXPECT_EQ(word("cvt.rp.ftz.f32.f64 %f0, %fd1; mov.b32 %r0, %f0;", bits(1e-40)), 0u);
  EXPECT_EQ(word("cvt.rm.sat.f32.f64 %f0, %fd1; mov.b32 %r0, %f0;", bits(0.999999999)),
            bits(0x1.fffffep-1f));
}

}  // namespace
}  // namespace microscale::emulator
