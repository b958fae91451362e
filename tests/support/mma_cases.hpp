// Operands for matrix instructions, the same on every machine: what the checker gives a GPU and
// what the test that replays its results gives the model.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/tensor/mma_shape.hpp"
#include "emulator/tensor/number.hpp"

namespace microscale::testing {

namespace tensor = emulator::tensor;

/// A small generator with known bits (splitmix64).
class Bits {
 public:
  explicit Bits(std::uint64_t seed) : state_(seed) {}
  std::uint32_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
  }
  std::uint32_t below(std::uint32_t limit) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(next()) * limit >> 32);
  }

 private:
  std::uint64_t state_;
};

/// How operands are spread.
enum class Spread : std::uint8_t {
  finite,    // every finite code as likely
  moderate,  // exponents near 1.0
  sparse,    // as `finite`, half of them zeros of either sign
  corners,   // zeros, subnormals, ones, largest
  specials,  // as `moderate`, with some NaN and infinities
  powers,    // powers of two far apart
  raw,       // any bits
};
inline constexpr int spreads = 7;
inline constexpr const char* spread_names[spreads] = {"finite",   "moderate", "sparse", "corners",
                                                      "specials", "powers",   "raw"};

struct Fields {
  int exponent_bits, fraction_bits, specials;  // as number_of takes them
};
inline Fields fields_of(tensor::Operand type) {
  using tensor::Operand;
  switch (type) {
    case Operand::f16:
      return {5, 10, 2};
    case Operand::bf16:
      return {8, 7, 2};
    case Operand::tf32:
      return {8, 23, 2};  // as FP32, whose low bits are dropped
    case Operand::e4m3:
      return {4, 3, 1};
    case Operand::e5m2:
      return {5, 2, 2};
    case Operand::e3m2:
      return {3, 2, 0};
    case Operand::e2m3:
      return {2, 3, 0};
    default:
      return {2, 1, 0};
  }
}

inline std::uint32_t random_float(Bits& bits, Fields f, Spread spread) {
  const std::uint32_t top = (1u << f.exponent_bits) - 1, bias = top >> 1;
  const std::uint32_t all = (1u << f.fraction_bits) - 1;
  const std::uint32_t sign = bits.below(2) << (f.exponent_bits + f.fraction_bits);
  const auto make = [&](std::uint32_t exponent, std::uint32_t fraction) {
    if (f.specials == 2 && exponent == top) exponent = top - 1;
    if (f.specials == 1 && exponent == top && fraction == all) fraction = all - 1;
    return sign | exponent << f.fraction_bits | fraction;
  };
  const std::uint32_t fraction = bits.next() & all;
  switch (spread) {
    case Spread::sparse:
      if (bits.below(2)) return sign;
      [[fallthrough]];
    case Spread::finite:
      return make(bits.below(top + 1), fraction);
    case Spread::specials:
      if (bits.below(48) == 0) {
        const std::uint32_t kinds[3] = {all, 0, 1};
        return sign | top << f.fraction_bits | kinds[bits.below(3)];
      }
      [[fallthrough]];
    case Spread::moderate: {
      const std::uint32_t exponent = bias - 3 + bits.below(7);
      return make(exponent > top ? bias : exponent, fraction);
    }
    case Spread::corners: {
      const std::uint32_t exponents[5] = {0, 0, 1, top, bias};
      const std::uint32_t fractions[4] = {0, 1, all, fraction};
      const std::uint32_t exponent = exponents[bits.below(5)];
      return make(exponent, fractions[bits.below(4)]);
    }
    case Spread::powers: {
      const std::uint32_t reach = bias < 14 ? bias : 14;
      return make(bias - reach + bits.below(2 * reach + 1), 0);
    }
    case Spread::raw:
      break;
  }
  return bits.next() & ((2u << (f.exponent_bits + f.fraction_bits)) - 1);
}

/// An element as it stands in its container.
inline std::uint32_t random_code(Bits& bits, tensor::Operand type, Spread spread) {
  if (type == tensor::Operand::s8 || type == tensor::Operand::u8) {
    const std::uint32_t corners[4] = {0, 0x7F, 0x80, 0xFF};
    return spread == Spread::corners ? corners[bits.below(4)] : bits.next() & 0xFF;
  }
  return random_float(bits, fields_of(type), spread);
}

/// An accumulator: FP32 ones near what products of `type` reach.
inline std::uint32_t random_accumulator(Bits& bits, tensor::Result result, tensor::Operand type,
                                        Spread spread) {
  if (result == tensor::Result::s32) {
    const std::uint32_t corners[4] = {0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    return spread == Spread::corners ? corners[bits.below(4)] : bits.next() >> bits.below(32);
  }
  if (result == tensor::Result::f16) return random_float(bits, {5, 10, 2}, spread);
  if (spread != Spread::finite && spread != Spread::sparse && spread != Spread::powers)
    return random_float(bits, {8, 23, 2}, spread);
  if (bits.below(8) == 0) return bits.below(2) << 31;
  const Fields f = fields_of(type);
  const int reach = (1 << f.exponent_bits) + 2 * f.fraction_bits;
  int exponent =
      127 - reach - 24 + static_cast<int>(bits.below(static_cast<std::uint32_t>(2 * reach + 24)));
  exponent = exponent < 0 ? 0 : exponent > 254 ? 254 : exponent;
  const std::uint32_t fraction = spread == Spread::powers ? 0 : bits.next() & 0x7FFFFF;
  return bits.below(2) << 31 | static_cast<std::uint32_t>(exponent) << 23 | fraction;
}

/// A register of such elements.
inline std::uint32_t random_register(Bits& bits, tensor::Kind kind, tensor::Operand type,
                                     Spread spread) {
  const int width = tensor::container_bits(kind, type);
  const int up = tensor::container_shift(kind, type);
  std::uint32_t word = 0;
  for (int at = 0; at < 32; at += width) word |= random_code(bits, type, spread) << (at + up);
  return word;
}

/// Registers A, B, C in this order, each 32 lanes; scale registers follow where there are some.
inline std::vector<std::uint32_t> mma_case(const tensor::MmaShape& shape, Spread spread,
                                           std::uint64_t seed) {
  Bits bits(seed * 1000003 + static_cast<std::uint64_t>(spread));
  std::vector<std::uint32_t> words;
  for (int i = 0; i < 32 * a_registers(shape); ++i)
    words.push_back(random_register(bits, shape.kind, shape.a, spread));
  for (int i = 0; i < 32 * b_registers(shape); ++i)
    words.push_back(random_register(bits, shape.kind, shape.b, spread));
  for (int i = 0; i < 32 * result_registers(shape, shape.c); ++i) {
    std::uint32_t word = random_accumulator(bits, shape.c, shape.a, spread);
    if (shape.c == tensor::Result::f16)
      word |= random_accumulator(bits, shape.c, shape.a, spread) << 16;
    words.push_back(word);
  }
  const bool exponents = shape.scale == tensor::ScaleType::ue8m0;
  for (int i = 0; i < 64 && shape.scale != tensor::ScaleType::none; ++i) {
    std::uint32_t word = 0;
    for (int byte = 0; byte < 4; ++byte)
      word = word << 8 | (exponents ? 117 + bits.below(20) : bits.below(127));
    words.push_back(spread == Spread::specials && bits.below(16) == 0 ? word | 0x7F : word);
  }
  return words;
}

/// 64-bit FNV-1a of words, low byte first.
inline std::uint64_t digest(const std::uint32_t* words, std::size_t count,
                            std::uint64_t hash = 0xCBF29CE484222325u) {
  for (std::size_t i = 0; i < count; ++i)
    for (int byte = 0; byte < 4; ++byte)
      hash = (hash ^ (words[i] >> (8 * byte) & 0xFF)) * 0x100000001B3u;
  return hash;
}

/// Cases of each spread that the golden digests cover.
inline constexpr std::uint64_t mma_golden_cases = 48, wgmma_golden_cases = 4;

/// "mma_m16n8k16_f32_f16_f16_f32": what the checker's kernel of a shape is called.
inline std::string kernel_name(const tensor::MmaShape& shape) {
  const auto part = [](std::string_view name) { return "_" + std::string(name); };
  const std::string kind =
      shape.kind == tensor::Kind::plain ? "mma" : std::string(name_of(shape.kind));
  const std::string scales = shape.scale_vector ? part(name_of(shape.scale)) + "_" +
                                                      std::to_string(shape.scale_vector) + "X"
                                                : "";
  return kind + "_m16n8k" + std::to_string(shape.k) + part(name_of(shape.d)) +
         part(name_of(shape.a)) + part(name_of(shape.b)) + part(name_of(shape.c)) + scales +
         (shape.saturate ? "_satfinite" : "");
}

/// The mma.sync spellings that a Hopper GPU has.
inline std::vector<tensor::MmaShape> hopper_mma_shapes() {
  using tensor::Kind, tensor::MmaShape, tensor::Operand, tensor::Result;
  std::vector<MmaShape> shapes;
  const auto add = [&](int k, Operand a, Operand b, Result d, bool saturate = false) {
    MmaShape shape;
    shape.k = k, shape.a = a, shape.b = b, shape.c = shape.d = d, shape.saturate = saturate;
    shapes.push_back(shape);
  };
  for (const int k : {8, 16}) {
    add(k, Operand::f16, Operand::f16, Result::f32);
    add(k, Operand::f16, Operand::f16, Result::f16);
    add(k, Operand::bf16, Operand::bf16, Result::f32);
  }
  add(4, Operand::tf32, Operand::tf32, Result::f32);
  add(8, Operand::tf32, Operand::tf32, Result::f32);
  for (const int k : {16, 32}) {
    for (const Operand a : {Operand::s8, Operand::u8})
      for (const Operand b : {Operand::s8, Operand::u8}) {
        add(k, a, b, Result::s32);
        add(k, a, b, Result::s32, true);
      }
    for (const Operand a : {Operand::e4m3, Operand::e5m2})
      for (const Operand b : {Operand::e4m3, Operand::e5m2}) {
        add(k, a, b, Result::f32);
        add(k, a, b, Result::f16);
      }
  }
  return shapes;
}

/// The block-scaled and f8f6f4 spellings of an RTX Blackwell GPU: a choice of elements.
inline std::vector<tensor::MmaShape> blackwell_mma_shapes() {
  using tensor::Kind, tensor::MmaShape, tensor::Operand, tensor::ScaleType;
  std::vector<MmaShape> shapes;
  const auto add = [&](Kind kind, Operand a, Operand b, ScaleType scale, int vector) {
    MmaShape shape;
    shape.kind = kind, shape.k = vector > 1 ? 64 : 32, shape.a = a, shape.b = b;
    shape.scale = scale, shape.scale_vector = vector;
    shapes.push_back(shape);
  };
  const Operand types[5] = {Operand::e4m3, Operand::e5m2, Operand::e3m2, Operand::e2m3,
                            Operand::e2m1};
  for (int i = 0; i < 5; ++i) {
    add(Kind::f8f6f4, types[i], types[(i + 4) % 5], ScaleType::none, 0);
    add(Kind::mxf8f6f4, types[i], types[(i * 2) % 5], ScaleType::ue8m0, 1);
  }
  add(Kind::mxf4, Operand::e2m1, Operand::e2m1, ScaleType::ue8m0, 2);
  add(Kind::mxf4nvf4, Operand::e2m1, Operand::e2m1, ScaleType::ue8m0, 2);
  add(Kind::mxf4nvf4, Operand::e2m1, Operand::e2m1, ScaleType::ue4m3, 4);
  return shapes;
}

}  // namespace microscale::testing
