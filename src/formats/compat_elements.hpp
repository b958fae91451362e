// Arithmetic on one element that only other tools use.
#pragma once

#include <cmath>

#include "formats/elements.hpp"
#include "formats/half.hpp"

namespace microscale {

/// The value nearest to `value` (ties to even) that `dtype` has: what PyTorch's operations on
/// tensors of that type give.
inline float round_to(DType dtype, float value) {
  if (dtype == DType::f16) return f16_to_float(float_to_f16(value));
  if (dtype == DType::bf16) return bf16_to_float(float_to_bf16(value));
  return value;
}

/// sign(x) * nearest(|x|): an exact zero is +0 whatever its sign, a small negative number -0.
inline std::uint8_t signed_by_comparison_e2m1(float scaled) {
  return scaled == 0 ? std::uint8_t{0} : E2M1::encode(scaled, Rounding::nearest_even);
}

/// ModelOpt's MXFP4: counts the midpoints that |x| exceeds; every zero has the sign bit.
inline std::uint8_t counted_e2m1(float scaled) {
  const std::uint8_t code = E2M1::encode(scaled, Rounding::nearest_toward_zero);
  return scaled > 0 ? code : code | E2M1::sign_bit;
}

/// llama.cpp: the first of the 16 codes with the least |code * scale - x|, the error rounded to
/// FP32, so that a value far out of range has equal errors everywhere and takes code 0.
inline std::uint8_t least_error_e2m1(float value, float half_scale) {
  std::uint8_t best = 0;
  float least = std::fabs(value);
  for (std::uint8_t code = 1; code < 16; ++code) {
    const float error = std::fabs(2.0f * E2M1::decode(code) * half_scale - value);
    if (error < least) {
      least = error;
      best = code;
    }
  }
  return best;
}

}  // namespace microscale
