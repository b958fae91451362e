#include <bit>

#include "emulator/run_ptx.hpp"
#include "formats/elements.hpp"
#include "formats/half.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

constexpr std::uint32_t interesting[] = {0,          0x80000000, 0x3e800000, 0x3f400000, 0x40200000,
                                         0xbf400000, 0x40a00000, 0x7f800000, 0xff800000, 0x7fc00000,
                                         0xffc00000, 0x43e00000, 0x43e80000, 0x47600000, 0x3b800000,
                                         0x3b000000, 0x3ac00000, 0x00000001, 0x41f00000};

// Every upper half of an FP32 with a few lower ones would take minutes; these are the ties and the
// ends.
template <class Codec>
void narrows_as_its_codec(const std::string& name, int shift) {
  const std::string d =
      shift == 4
          ? ".reg .b8 %b; cvt.rn.satfinite." + name + ".f32 %b, %f1, %f2; cvt.u32.u8 %r0, %b;"
          : "cvt.rn.satfinite." + name + ".f32 %rs4, %f1, %f2; cvt.u32.u16 %r0, %rs4;";
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Lanes64 a, b;
    for (std::size_t i = 0; i < 32; ++i) {
      const std::uint64_t mixed = (seed * 32 + i + 1) * 0x9e3779b97f4a7c15u;
      a[i] = i < std::size(interesting) && seed < 1
                 ? interesting[i]
                 : (0x3a000000u + (mixed >> 36) % 0x0f000000u) | (mixed & 0x80000000u);
      if (i % 3 == 0) a[i] &= 0xfff80000u;  // ties
      b[i] = a[31 - i % 7 - 3];
      b[i] &= 0xffffffffu;
    }
    for (std::size_t i = 0; i < 32; ++i) b[i] = a[(i * 11 + 5) % 32];
    const Computed got = compute("{ " + d + " }", a, b);
    for (std::size_t i = 0; i < 32; ++i) {
      const auto high = Codec::encode(std::bit_cast<float>(static_cast<std::uint32_t>(a[i])),
                                      Rounding::nearest_even);
      const auto low = Codec::encode(std::bit_cast<float>(static_cast<std::uint32_t>(b[i])),
                                     Rounding::nearest_even);
      ASSERT_EQ(got.r[i], static_cast<std::uint32_t>(high << shift | low))
          << name << std::hex << " of " << a[i] << ", " << b[i];
    }
  }
}

TEST(SmallConversions, narrow_two_values_the_first_into_the_high_part) {
  narrows_as_its_codec<E2M1>("e2m1x2", 4);
  narrows_as_its_codec<E4M3>("e4m3x2", 8);
  narrows_as_its_codec<E5M2>("e5m2x2", 8);
  narrows_as_its_codec<E2M3>("e2m3x2", 8);
  narrows_as_its_codec<E3M2>("e3m2x2", 8);
}

TEST(SmallConversions, relu_clears_what_is_negative) {
  EXPECT_EQ(word("cvt.rn.satfinite.relu.e4m3x2.f32 %rs4, %f1, %f2; cvt.u32.u16 %r0, %rs4;",
                 bits(-1.0f), bits(1.0f)),
            0x38u);
  EXPECT_EQ(word("cvt.rn.satfinite.relu.e4m3x2.f32 %rs4, %f1, %f2; cvt.u32.u16 %r0, %rs4;",
                 0x7fc00000, 0x80000000),
            0x7f00u);
}

TEST(SmallConversions, halves_narrow_too) {
  EXPECT_EQ(word("cvt.rn.satfinite.e4m3x2.f16x2 %rs4, %r1; cvt.u32.u16 %r0, %rs4;", 0x3c00c000),
            0x38c0u);
}

template <class Codec>
void widens_as_its_codec(const std::string& name, int width) {
  Lanes64 a;
  const std::uint32_t codes = 1u << width;
  for (std::uint32_t first = 0; first < codes; first += 32) {
    for (std::uint32_t i = 0; i < 32; ++i) {
      const std::uint32_t code = (first + i) % codes;
      a[i] = static_cast<std::uint64_t>(code << width | (codes - 1 - code));
      if (width == 8 && Codec::code_count == 64) a[i] &= 0x3f3f;
    }
    const Computed got = compute(
        width == 4 ? "{ .reg .b8 %b; cvt.u8.u32 %b, %r1; cvt.rn.f16x2." + name + " %r0, %b; }"
                   : "cvt.rn.f16x2." + name + " %r0, %rs1;",
        a);
    for (std::size_t i = 0; i < 32; ++i) {
      const std::uint32_t mask = codes - 1;
      const std::uint32_t high =
          float_to_f16(Codec::decode(static_cast<std::uint8_t>(a[i] >> width & mask)));
      const std::uint32_t low = float_to_f16(Codec::decode(static_cast<std::uint8_t>(a[i] & mask)));
      ASSERT_EQ(got.r[i], high << 16 | low) << name << " of " << a[i];
    }
  }
}

TEST(SmallConversions, widen_every_code_exactly) {
  widens_as_its_codec<E2M1>("e2m1x2", 4);
  widens_as_its_codec<E4M3>("e4m3x2", 8);
  widens_as_its_codec<E5M2>("e5m2x2", 8);
  widens_as_its_codec<E2M3>("e2m3x2", 8);
  widens_as_its_codec<E3M2>("e3m2x2", 8);
}

}  // namespace
}  // namespace microscale::emulator
