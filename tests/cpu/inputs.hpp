// Inputs on which vector kernels go wrong: every rounding boundary, every special value, every
// 16-bit pattern.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "formats/half.hpp"
#include "microscale/format.hpp"

namespace microscale::test {

/// Elements of a type as bits, one per entry; f32 uses all 32 bits.
struct Input {
  std::string name;
  DType type;
  std::vector<std::uint32_t> bits;
};

inline std::uint32_t to_bits(float value, DType type) {
  if (type == DType::f16) return float_to_f16(value);
  return type == DType::bf16 ? float_to_bf16(value) : std::bit_cast<std::uint32_t>(value);
}

inline std::vector<std::uint8_t> to_bytes(const Input& input) {
  const auto size = static_cast<std::size_t>(size_of(input.type));
  std::vector<std::uint8_t> bytes(input.bits.size() * size);
  for (std::size_t i = 0; i < input.bits.size(); ++i)
    std::memcpy(bytes.data() + i * size, &input.bits[i], size);
  return bytes;
}

template <class Value>
Input of_values(const char* name, DType type, int count, Value&& value) {
  Input input{name, type, {}};
  for (int i = 0; i < count; ++i) input.bits.push_back(to_bits(value(i), type));
  return input;
}

/// Elements, or neighbours of them, at the midpoints of every element type times every power of
/// two.
inline Input ties(DType type) {
  constexpr float midpoints[] = {0.25f,   0.75f,  1.25f,  1.75f,    2.5f,     3.5f,    5.0f,
                                 6.0f,    7.0f,   0.5f,   1.0f,     4.0f,     1.0625f, 1.1875f,
                                 1.9375f, 1.125f, 1.375f, 0x1p-10f, 0x3p-10f, 0xFp-10f};
  Input input{"ties", type, {}};
  std::mt19937 random(5);
  for (int exponent = -140; exponent < 127; ++exponent) {
    for (int block = 0; block < 6; ++block) {
      for (int i = 0; i < 32; ++i) {
        std::uint32_t bits = to_bits(std::ldexp(midpoints[random() % 20], exponent), type);
        if (i == 0)
          bits = to_bits(std::ldexp(block % 2 ? 6.0f : 4.0f, exponent), type);  // fixes the scale
        const unsigned change = random() % 4;
        if (i > 0 && change == 1) ++bits;
        if (i > 0 && change == 2 && bits > 0) --bits;
        if (random() % 2) bits |= type == DType::f32 ? 0x80000000u : 0x8000u;
        input.bits.push_back(bits);
      }
    }
  }
  return input;
}

/// Ordinary blocks; every third has one special value, others are zeros of both signs or partly
/// zero.
inline Input specials(DType type) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float top = std::numeric_limits<float>::max();
  const float values[] = {inf, -inf, nan, -nan, top, -top, 0x1p-149f, -0x1p-126f, 65504.0f, -0.0f};
  std::mt19937 random(6);
  std::normal_distribution<float> gaussian;
  return of_values("specials", type, 32 * 400, [&](int i) {
    const int block = i / 16;
    if (block % 7 == 1) return random() % 2 ? 0.0f : -0.0f;
    if (block % 7 == 2 && random() % 2) return -0.0f;
    if (block % 3 == 0 && i % 16 == block % 16) return values[block / 3 % 10];
    return gaussian(random);
  });
}

/// Each 16-bit pattern as the largest of its block (32 elements each; of two blocks of 16 where
/// those are).
inline Input each_as_amax(DType type, int step) {
  Input input{"each pattern as amax", type, {}};
  std::mt19937 random(7);
  for (std::uint32_t pattern = 0; pattern < 0x10000u; pattern += static_cast<std::uint32_t>(step)) {
    const std::uint32_t amax =
        type == DType::f32 ? pattern << 16 | (random() % 3 == 0 ? random() & 0xFFFFu : 0) : pattern;
    const std::uint32_t sign = type == DType::f32 ? 0x80000000u : 0x8000u;
    for (int half = 0; half < 2; ++half) {
      const unsigned place = random() % 16;
      for (unsigned i = 0; i < 16; ++i) {
        const float fraction = static_cast<float>(random() % 1024) / 1024.0f;
        std::uint32_t bits = amax;
        if (i != place && type == DType::f32)
          bits = to_bits(std::bit_cast<float>(amax) * fraction, type);
        if (i != place && type == DType::bf16)
          bits = to_bits(bf16_to_float(static_cast<std::uint16_t>(amax)) * fraction, type);
        if (i != place && type == DType::f16)
          bits = to_bits(f16_to_float(static_cast<std::uint16_t>(amax)) * fraction, type);
        if (i != place && (amax & ~sign) > (type == DType::f16   ? 0x7C00u
                                            : type == DType::f32 ? 0x7F800000u
                                                                 : 0x7F80u))
          bits = to_bits(fraction, type);  // beside a NaN: numbers
        input.bits.push_back(bits ^ (random() % 2 ? sign : 0));
      }
    }
  }
  return input;
}

/// Everything above and plain data, `size` elements of each random kind.
inline std::vector<Input> inputs(DType type, int size) {
  std::mt19937 random(8);
  std::normal_distribution<float> gaussian;
  std::uniform_real_distribution<float> exponent(-40, 20), narrow(-12, 3), unit(-1, 1);
  std::vector<Input> all;
  Input every{"every pattern", type, {}}, bits{"random bits", type, {}};
  for (std::uint32_t i = 0; i < 0x10000u; ++i)
    every.bits.push_back(type == DType::f32 ? i << 16 : i);
  for (int i = 0; i < size; ++i) bits.bits.push_back(random() >> (type == DType::f32 ? 0 : 16));
  all.push_back(std::move(every));
  all.push_back(std::move(bits));
  all.push_back(of_values("gaussian", type, size, [&](int) { return gaussian(random) * 0.02f; }));
  all.push_back(of_values("log-uniform", type, size, [&](int) {
    return std::exp2(exponent(random)) * (random() % 2 ? 1.0f : -1.0f);
  }));
  all.push_back(of_values("narrow log-uniform", type, size, [&](int) {
    return std::exp2(narrow(random)) * (random() % 2 ? 1.0f : -1.0f);
  }));
  all.push_back(of_values("extreme exponents", type, size, [&](int i) {
    const int e = i / 32 % 2 ? 127 - i / 64 % 20 : -149 + i / 64 % 70;
    return std::ldexp(unit(random), e);
  }));
  all.push_back(ties(type));
  all.push_back(specials(type));
  return all;
}

}  // namespace microscale::test
