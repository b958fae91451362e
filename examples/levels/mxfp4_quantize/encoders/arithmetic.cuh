// Encoder: the code as the least of three straight lines, without a branch or a table.
//
//   2 y        codes 0 to 4, which lie 0.5 apart
//   y + 2      codes 4 to 6, 1 apart
//   a y + 5    6 up to and including y = 5, then 7; a is the float just below 0.3
//
// Adding 2^23 leaves the sum's integer part in the low bits of the float, rounded to nearest even
// by the addition itself: one instruction scales, shifts and rounds.
#pragma once

#include <cstdint>

#include "microscale/numerics.hpp"

namespace levels {

struct Arithmetic {
  static constexpr const char* name = "bit arithmetic";
  static constexpr auto rounding = microscale::Rounding::nearest_even;
  static constexpr bool blackwell = false;

  __device__ static std::uint32_t encode(float y) {
    constexpr float unit = 8388608.0f;  // 2^23
    const float magnitude = fminf(fabsf(y), 8.0f);
    const float low = __fmaf_rn(magnitude, 2.0f, unit);
    const float middle = __fadd_rn(magnitude, unit + 2);
    const float high = __fmaf_rn(magnitude, 0x1.333332p-2f, unit + 5);
    const float least = fminf(fminf(low, middle), high);
    return (__float_as_uint(least) & 7u) | (__float_as_uint(y) >> 28 & 8u);
  }
};

}  // namespace levels
