// BF16 and FP16 <-> FP32, nearest even, as integer arithmetic that means the same everywhere.
// A NaN becomes the canonical NaN a GPU writes: 0x7FFF (and 0x7FFFFFFF in FP32).
#pragma once

#include <bit>
#include <cstdint>

#include "formats/arithmetic.hpp"
#include "formats/host_device.hpp"

namespace microscale {

inline constexpr std::uint16_t canonical_nan_16 = 0x7FFFu;

MICROSCALE_HD constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

MICROSCALE_HD constexpr std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return canonical_nan_16;
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

MICROSCALE_HD constexpr float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 31u;
  const std::uint32_t mantissa = bits & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent == 0) {  // mantissa * 2^-24 is exact in FP32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

MICROSCALE_HD constexpr std::uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return canonical_nan_16;
  if (magnitude >= 0x477FF000u) return static_cast<std::uint16_t>(sign | 0x7C00u);  // >= 65520
  if (magnitude < 0x33000001u) return static_cast<std::uint16_t>(sign);  // <= 2^-25: a tie, to even
  const std::uint32_t exponent = magnitude >> 23;
  const std::uint32_t significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  const std::uint32_t shift = exponent >= 113 ? 13 : 126 - exponent;  // subnormals lose more bits
  const std::uint32_t quotient = significand >> shift;
  const std::uint32_t rest = significand & ((1u << shift) - 1), half = 1u << (shift - 1);
  const std::uint32_t rounded = quotient + (rest > half || (rest == half && (quotient & 1u)));
  const std::uint32_t base = exponent >= 113 ? (exponent - 113) << 10 : 0;
  return static_cast<std::uint16_t>(sign | (base + rounded));
}

}  // namespace microscale
