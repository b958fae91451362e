// Operands for wgmma, as mma_cases.hpp: a shared-memory image, two descriptors into it, registers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/tensor/wgmma.hpp"
#include "support/mma_cases.hpp"

namespace microscale::testing {

struct WgmmaVariant {
  std::string name;  // of the kernel
  tensor::WgmmaShape shape;
  tensor::WgmmaOptions options;
  bool a_in_registers = false;
};

inline constexpr int image_bytes = 32768;  // A in the first half, B in the second
inline constexpr int wgmma_header_words =
    8;  // descriptor A, descriptor B (low word first), accumulate
inline constexpr int wgmma_a_words = 4 * 128, wgmma_image_words = image_bytes / 4;

/// Words of a case: header, A registers [reg][thread], C registers [reg][thread], image.
inline int wgmma_case_words(const WgmmaVariant& v) {
  return wgmma_header_words + wgmma_a_words + 128 * v.shape.d_registers() + wgmma_image_words;
}

inline std::vector<WgmmaVariant> hopper_wgmma_variants() {
  using tensor::Operand, tensor::Result;
  std::vector<WgmmaVariant> variants;
  const auto add = [&](Operand a, Operand b, Result d, bool in_registers,
                       tensor::WgmmaOptions options, const std::string& suffix) {
    WgmmaVariant v;
    v.shape.n = 64, v.shape.a = a, v.shape.b = b, v.shape.d = d;
    v.options = options, v.a_in_registers = in_registers;
    v.name = "wgmma_" + std::string(name_of(d)) + "_" + std::string(name_of(a)) + "_" +
             std::string(name_of(b)) + (in_registers ? "_registers" : "_shared") + suffix;
    variants.push_back(v);
  };
  for (const bool in_registers : {false, true}) {
    add(Operand::f16, Operand::f16, Result::f32, in_registers, {}, "");
    add(Operand::f16, Operand::f16, Result::f16, in_registers, {}, "");
    add(Operand::bf16, Operand::bf16, Result::f32, in_registers, {}, "");
    add(Operand::tf32, Operand::tf32, Result::f32, in_registers, {}, "");
    add(Operand::s8, Operand::s8, Result::s32, in_registers, {}, "");
    add(Operand::u8, Operand::s8, Result::s32, in_registers, {}, "");
    for (const Operand a : {Operand::e4m3, Operand::e5m2})
      for (const Operand b : {Operand::e4m3, Operand::e5m2})
        for (const Result d : {Result::f32, Result::f16}) add(a, b, d, in_registers, {}, "");
  }
  tensor::WgmmaOptions options;
  options.negate_a = true;
  add(Operand::f16, Operand::f16, Result::f32, false, options, "_negate_a");
  options = {}, options.negate_b = true;
  add(Operand::e4m3, Operand::e4m3, Result::f32, false, options, "_negate_b");
  options = {}, options.mn_major_a = true;
  add(Operand::f16, Operand::f16, Result::f32, false, options, "_mn_a");
  options.mn_major_b = true;
  add(Operand::bf16, Operand::bf16, Result::f32, false, options, "_mn_ab");
  options.mn_major_a = false;
  add(Operand::f16, Operand::f16, Result::f32, true, options, "_mn_b");
  return variants;
}

/// A descriptor of 64 lines of 32 bytes (or 16 x 64 elements of 2 bytes, MN-major) from `start` on.
inline tensor::MatrixDescriptor random_descriptor(Bits& bits, std::uint32_t start, bool mn_major,
                                                  tensor::Swizzle swizzle) {
  tensor::MatrixDescriptor d;
  d.swizzle = swizzle;
  d.start = start;
  const std::uint32_t row = 16u << static_cast<int>(swizzle), atom = 8 * row;
  if (swizzle == tensor::Swizzle::none) {
    const bool wide = bits.below(2);  // two orders of the 8 x 16-byte core matrices
    d.start += 16 * bits.below(4) * 8;
    d.leading_offset = wide ? 128 : 1024;
    d.stride_offset = wide ? 256 : 128;
    return d;
  }
  d.start += atom * bits.below(2) * (1024 / atom);
  if (mn_major) {
    d.stride_offset = atom;
    d.leading_offset = 2 * atom;
  } else {
    d.start += 32 * bits.below(row / 32);  // further along K in the swizzled row
    d.stride_offset = atom;
    d.leading_offset = 16;
  }
  return d;
}

inline std::vector<std::uint32_t> wgmma_case(const WgmmaVariant& v, Spread spread,
                                             std::uint64_t seed) {
  Bits bits(seed * 7919 + static_cast<std::uint64_t>(spread));
  const auto swizzle = static_cast<tensor::Swizzle>(seed % 4);
  const std::uint64_t a =
      wgmma_descriptor_bits(random_descriptor(bits, 0, v.options.mn_major_a, swizzle));
  const auto other = static_cast<tensor::Swizzle>(bits.below(4));
  const std::uint64_t b =
      wgmma_descriptor_bits(random_descriptor(bits, image_bytes / 2, v.options.mn_major_b, other));
  std::vector<std::uint32_t> words = {
      static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32),
      static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32),
      bits.below(8) != 0 ? 1u : 0u};
  words.resize(wgmma_header_words);
  const auto add = [&](int count, auto&& make) {
    for (int i = 0; i < count; ++i) words.push_back(make());
  };
  add(wgmma_a_words, [&] { return random_register(bits, tensor::Kind::plain, v.shape.a, spread); });
  add(128 * v.shape.d_registers(), [&] {
    std::uint32_t word = random_accumulator(bits, v.shape.d, v.shape.a, spread);
    if (v.shape.d == tensor::Result::f16)
      word |= random_accumulator(bits, v.shape.d, v.shape.a, spread) << 16;
    return word;
  });
  add(wgmma_image_words / 2,
      [&] { return random_register(bits, tensor::Kind::plain, v.shape.a, spread); });
  add(wgmma_image_words / 2,
      [&] { return random_register(bits, tensor::Kind::plain, v.shape.b, spread); });
  return words;
}

}  // namespace microscale::testing
