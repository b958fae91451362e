// What the matrix units see of an element: an integer significand and an exponent.
//   value = significand * 2^(exponent - fraction_bits(type))
// Normal numbers have a leading one; subnormals keep the smallest exponent of their type.
#pragma once

#include <bit>
#include <cstdint>

#include "emulator/tensor/mma_shape.hpp"

namespace microscale::emulator::tensor {

enum class Class : std::uint8_t { finite, infinite, nan };

struct Number {
  std::int32_t significand = 0;
  std::int32_t exponent = 0;
  Class kind = Class::finite;
};

/// Of a zero: below every other, so that a product of zero never aligns the others (measured on an
/// H200; the published models say -126, which a BF16 zero times 2^127 contradicts).
inline constexpr int zero_exponent = -1000;
/// What terms are aligned to at least, however small they are (measured on an H200).
inline constexpr int smallest_alignment = -133;

constexpr int fraction_bits(Operand type) {
  switch (type) {
    case Operand::f16:
    case Operand::tf32:
      return 10;
    case Operand::bf16:
      return 7;
    case Operand::e4m3:
    case Operand::e2m3:
      return 3;
    case Operand::e5m2:
    case Operand::e3m2:
      return 2;
    case Operand::e2m1:
      return 1;
    default:  // integers, and f64, which is no Number
      break;
  }
  return 0;
}

/// A sign, exponent and fraction field as a number. `specials`: 2 the top exponent holds infinity
/// and NaNs, 1 only all ones is NaN, 0 all codes are finite.
constexpr Number number_of(std::uint32_t code, int exponent_bits, int fraction, int specials) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto mask = (1u << fraction) - 1;
  const std::uint32_t mantissa = code & mask, top = (1u << exponent_bits) - 1;
  const std::uint32_t field = code >> fraction & top;
  const bool negative = code >> (exponent_bits + fraction) & 1;
  Number number;
  if (field == top && specials == 2) {
    number.kind = mantissa != 0 ? Class::nan : Class::infinite;
    number.significand = negative ? -1 : 1;
    return number;
  }
  if (specials == 1 && field == top && mantissa == mask) {
    number.kind = Class::nan;
    return number;
  }
  const auto magnitude =
      static_cast<std::int32_t>(field != 0 ? mantissa | 1u << fraction : mantissa);
  number.significand = negative ? -magnitude : magnitude;
  number.exponent =
      magnitude == 0 ? zero_exponent : static_cast<int>(field != 0 ? field : 1) - bias;
  return number;
}

/// `code`: the element alone, without the padding of its container. Not for integers.
constexpr Number number_of(Operand type, std::uint32_t code) {
  switch (type) {
    case Operand::f16:
      return number_of(code, 5, 10, 2);
    case Operand::bf16:
      return number_of(code, 8, 7, 2);
    case Operand::tf32:
      return number_of(code >> 13, 8, 10, 2);  // the low 13 bits are dropped
    case Operand::e4m3:
      return number_of(code, 4, 3, 1);
    case Operand::e5m2:
      return number_of(code, 5, 2, 2);
    case Operand::e3m2:
      return number_of(code, 3, 2, 0);
    case Operand::e2m3:
      return number_of(code, 2, 3, 0);
    case Operand::e2m1:
      return number_of(code, 2, 1, 0);
    default:  // integers, and f64, which is no Number
      break;
  }
  return {};
}

/// An accumulator, with 23 or 10 fraction bits.
constexpr Number accumulator_number(Result type, std::uint32_t bits) {
  return type == Result::f16 ? number_of(bits & 0xFFFF, 5, 10, 2) : number_of(bits, 8, 23, 2);
}

/// A scale byte: significand with 3 fraction bits (ue4m3; its bit 7 is not looked at) or 0 (ue8m0).
constexpr Number scale_number(ScaleType type, std::uint8_t code) {
  if (type == ScaleType::ue4m3) return number_of(code & 0x7Fu, 4, 3, 1);
  if (code == 0xFF) return {0, 0, Class::nan};
  return {1, static_cast<int>(code) - 127, Class::finite};
}

}  // namespace microscale::emulator::tensor
