// Encoder: which of the seven midpoints between the eight magnitudes are below the value.
//
// A value on a midpoint goes to the even code: >= where the code above is even, > where it is odd.
// With < everywhere (EvenTies false), as a ladder is easily written, ties go up: a different
// rounding.
#pragma once

#include <cstdint>

#include "microscale/numerics.hpp"

namespace levels {

template <bool EvenTies>
struct Thresholds {
  static constexpr const char* name = EvenTies ? "7 thresholds" : "7 thresholds, ties up";
  static constexpr auto rounding =
      EvenTies ? microscale::Rounding::nearest_even : microscale::Rounding::nearest_away;
  static constexpr bool blackwell = false;

  /// Whether `magnitude` belongs above the midpoint below odd code.
  __device__ static bool above_odd(float magnitude, float midpoint) {
    return EvenTies ? magnitude > midpoint : magnitude >= midpoint;
  }

  __device__ static std::uint32_t encode(float y) {
    const float magnitude = fabsf(y);
    std::uint32_t code = 0;
    if (above_odd(magnitude, 5.0f))
      code = 7;  // 6
    else if (magnitude >= 3.5f)
      code = 6;  // 4
    else if (above_odd(magnitude, 2.5f))
      code = 5;  // 3
    else if (magnitude >= 1.75f)
      code = 4;  // 2
    else if (above_odd(magnitude, 1.25f))
      code = 3;  // 1.5
    else if (magnitude >= 0.75f)
      code = 2;  // 1
    else if (above_odd(magnitude, 0.25f))
      code = 1;  // 0.5
    return code | (__float_as_uint(y) >> 28 & 8u);
  }
};

}  // namespace levels
