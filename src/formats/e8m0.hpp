// E8M0: a scale that is a power of two, byte b = 2^(b - 127), 255 = NaN; and the rules that choose
// the byte from a block's largest magnitude. docs/formats/numerics.md tabulates them.
#pragma once

#include <bit>
#include <cstdint>

#include "formats/host_device.hpp"
#include "formats/half.hpp"
#include "microscale/numerics.hpp"

namespace microscale {

inline constexpr std::uint8_t e8m0_max = 254;
inline constexpr std::uint8_t e8m0_nan = 255;

/// 2^exponent for exponent in [-127, 127], exact (2^-127 is subnormal).
MICROSCALE_HD constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(exponent > -127 ? static_cast<std::uint32_t>(exponent + 127) << 23
                                              : 0x00400000u);
}

MICROSCALE_HD constexpr float decode_e8m0(std::uint8_t byte) {
  return byte == e8m0_nan ? canonical_nan() : power_of_two(static_cast<int>(byte) - 127);
}

/// What an element is multiplied by before it is encoded: 1 / decode_e8m0(byte), exact. byte <=
/// 254.
MICROSCALE_HD constexpr float inverse_e8m0(std::uint8_t byte) {
  return power_of_two(127 - static_cast<int>(byte));
}

/// A positive finite magnitude as 1.fraction * 2^exponent, subnormals normalised.
struct Magnitude {
  int exponent;
  std::uint32_t fraction;  // 23 bits
};

MICROSCALE_HD constexpr Magnitude split(float amax) {
  const auto bits = std::bit_cast<std::uint32_t>(amax);
  int exponent = static_cast<int>(bits >> 23) - 127;
  std::uint32_t fraction = bits & 0x7FFFFFu;
  if (exponent == -127) {
    exponent = -126;
    while (!(fraction & 0x800000u)) {
      fraction <<= 1;
      --exponent;
    }
    fraction &= 0x7FFFFFu;
  }
  return {exponent, fraction};
}

/// The byte that `rule` gives for a block of largest magnitude `amax` (finite, >= 0), clamped to
/// [0, 254]. For `search` this is the lower of its two candidates (the floor byte). Codec: the
/// element's.
template <class Codec>
MICROSCALE_HD constexpr std::uint8_t e8m0_from_amax(ScaleRule rule, float amax) {
  if (amax == 0) return rule == ScaleRule::amax_ceil ? 127 : 0;
  const Magnitude m = split(amax);
  // amax plus half a unit of the element's last mantissa bit, then the exponent: a carry means
  // "round up".
  const auto carries = [&](int mantissa_bits, std::uint32_t less) {
    return m.fraction + (1u << (22 - mantissa_bits)) - less >= 0x800000u;
  };
  constexpr std::uint32_t largest_fraction =
      std::bit_cast<std::uint32_t>(Codec::max_value) & 0x7FFFFFu;
  int exponent = m.exponent - Codec::emax;
  switch (rule) {
    case ScaleRule::ceil:
      exponent += m.fraction != 0;
      break;
    case ScaleRule::rceil:
      exponent += m.fraction > largest_fraction;
      break;
    case ScaleRule::even:
      exponent += carries(Codec::mantissa_bits, 0);
      break;
    case ScaleRule::even_down:
      exponent += carries(Codec::mantissa_bits, 1);
      break;
    case ScaleRule::even_1bit:
      exponent += carries(1, 0);
      break;
    case ScaleRule::amax_ceil:
      exponent = m.exponent + (m.fraction != 0);
      break;
    case ScaleRule::amax_floor:
      exponent = m.exponent;
      break;
    default:
      break;  // floor, search
  }
  const int byte = exponent + 127;
  return static_cast<std::uint8_t>(byte < 0 ? 0 : byte > e8m0_max ? e8m0_max : byte);
}

}  // namespace microscale
