// Encoder: the nearest of the eight magnitudes, found by measuring all eight distances.
//
// The strict < keeps the lower of two equally near, so ties go toward zero: not what OCP asks for.
#pragma once

#include <cstdint>

#include "microscale/numerics.hpp"

namespace levels {

struct Distances {
  static constexpr const char* name = "8 distances";
  static constexpr auto rounding = microscale::Rounding::nearest_toward_zero;
  static constexpr bool blackwell = false;

  __device__ static std::uint32_t encode(float y) {
    constexpr float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const float magnitude = fabsf(y);
    std::uint32_t best = 0;
    float least = magnitude;
#pragma unroll
    for (std::uint32_t code = 1; code < 8; ++code) {
      const float distance = fabsf(magnitude - values[code]);
      if (distance < least) {
        least = distance;
        best = code;
      }
    }
    return best | (__float_as_uint(y) >> 28 & 8u);  // the sign bit, also of -0
  }
};

}  // namespace levels
