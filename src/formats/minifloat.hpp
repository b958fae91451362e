// A small binary float: one template from which every element codec is made.
// decode is exact; encode works on the bits of an FP32 value, so it is one rounding and the same on
// a host and on a GPU.
#pragma once

#include <bit>
#include <cstdint>

#include "formats/host_device.hpp"
#include "formats/half.hpp"
#include "microscale/numerics.hpp"

namespace microscale {

/// Which codes are not finite numbers.
enum class Specials : std::uint8_t {
  none,      // every code is finite; NaN encodes as +largest
  nan_only,  // exponent and mantissa all ones is NaN (E4M3 "fn"), no infinity
  ieee,      // the top exponent holds infinity and NaNs (E5M2)
};

/// `base` plus significand / 2^shift rounded, for significand < 2^24 and 1 <= shift <= 40; "even"
/// speaks of the sum. `random16` is used by stochastic rounding alone: up if the top 16 discarded
/// bits plus it carry.
MICROSCALE_HD constexpr std::uint32_t round_shift(std::uint32_t base, std::uint32_t significand,
                                                  int shift, Rounding rounding,
                                                  std::uint32_t random16) {
  const std::uint64_t wide = significand;
  const auto quotient = base + static_cast<std::uint32_t>(wide >> shift);
  const std::uint64_t rest = wide & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  bool up = false;
  switch (rounding) {
    case Rounding::nearest_even:
      up = rest > half || (rest == half && (quotient & 1u));
      break;
    case Rounding::nearest_away:
      up = rest >= half;
      break;
    case Rounding::nearest_toward_zero:
      up = rest > half;
      break;
    case Rounding::toward_zero:
      break;
    case Rounding::stochastic:
      up = ((rest << 16) >> shift) + random16 >= 0x10000u;
      break;
  }
  return quotient + up;
}

template <int ExponentBits, int MantissaBits, int Bias, Specials Special, bool Signed = true>
struct Minifloat {
  static constexpr int magnitude_bits = ExponentBits + MantissaBits;
  static constexpr int mantissa_bits = MantissaBits;
  static constexpr int code_count = 1 << (magnitude_bits + Signed);
  static constexpr std::uint8_t sign_bit = Signed ? 1u << magnitude_bits : 0u;
  /// Largest finite magnitude.
  static constexpr std::uint8_t max_code = (1u << magnitude_bits) - 1 -
                                           (Special == Specials::nan_only ? 1u
                                            : Special == Specials::ieee   ? (1u << MantissaBits)
                                                                          : 0u);
  /// What a NaN encodes to; the hardware's choice.
  static constexpr std::uint8_t nan_code =
      Special == Specials::none ? max_code : (1u << magnitude_bits) - 1;

  MICROSCALE_HD static constexpr bool is_nan(std::uint8_t code) {
    if (Special == Specials::none) return false;
    const unsigned magnitude = code & ((1u << magnitude_bits) - 1);
    return magnitude > max_code + (Special == Specials::ieee ? 1u : 0u);
  }

  MICROSCALE_HD static constexpr float decode(std::uint8_t code) {
    const std::uint32_t sign = (code & sign_bit) ? 0x80000000u : 0u;
    const std::uint32_t magnitude = code & ((1u << magnitude_bits) - 1);
    if (is_nan(code)) return canonical_nan();
    if (Special == Specials::ieee && magnitude > max_code)
      return std::bit_cast<float>(sign | 0x7F800000u);
    const std::uint32_t exponent = magnitude >> MantissaBits;
    const std::uint32_t mantissa = magnitude & ((1u << MantissaBits) - 1);
    if (exponent == 0) {
      const float unit =
          std::bit_cast<float>(static_cast<std::uint32_t>(128 - Bias - MantissaBits) << 23);
      const float value = static_cast<float>(mantissa) * unit;  // exact
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((exponent + 127 - Bias) << 23) |
                                (mantissa << (23 - MantissaBits)));
  }

  /// `value` rounded to a code; beyond the largest magnitude it saturates. An unsigned type takes
  /// every negative value to 0. `random16` in [0, 65535].
  MICROSCALE_HD static constexpr std::uint8_t encode(float value, Rounding rounding,
                                                     std::uint32_t random16 = 0) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return nan_code;
    if (!Signed && (bits >> 31)) return 0;
    const std::uint8_t sign = (bits >> 31) ? sign_bit : 0;
    if (magnitude == 0x7F800000u) return sign | max_code;
    const int field = static_cast<int>(magnitude >> 23);
    const int exponent = (field > 0 ? field : 1) - 127;
    const std::uint32_t significand = (magnitude & 0x7FFFFFu) | (field > 0 ? 0x800000u : 0u);
    constexpr int smallest_normal = 1 - Bias;
    const int base = exponent > smallest_normal ? exponent : smallest_normal;
    const int shift = 23 - MantissaBits + (base - exponent);
    const std::uint32_t code =
        round_shift(static_cast<std::uint32_t>(base - smallest_normal) << MantissaBits, significand,
                    shift < 40 ? shift : 40, rounding, random16);
    return static_cast<std::uint8_t>(sign | (code < max_code ? code : max_code));
  }
};

}  // namespace microscale
