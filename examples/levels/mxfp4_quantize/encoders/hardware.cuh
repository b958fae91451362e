// Encoder: the conversion instruction of Blackwell, `cvt.rn.satfinite.e2m1x2.f32`.
//
// It exists on the family targets sm_100f and sm_120f only (and the "a" targets); Hopper and a
// plain sm_100 or sm_120 have no such instruction. Compiled for all; launched where it exists.
#pragma once

#include <cstdint>

#include "cuda/ptx/packed.cuh"
#include "microscale/numerics.hpp"

namespace levels {

struct Hardware {
  static constexpr const char* name = "hardware cvt";
  static constexpr auto rounding = microscale::Rounding::nearest_even;
  static constexpr bool blackwell = true;

  __device__ static std::uint32_t encode(float y) {
#if MICROSCALE_HAS_FP4_CVT
    return microscale::ptx::cvt_rn_satfinite_e2m1x2_f32(y, 0.0f) & 15u;
#else
    __trap();
    return static_cast<std::uint32_t>(y);
#endif
  }

  /// Eight at once, as the instruction likes them.
  __device__ static std::uint32_t encode_eight(const float (&y)[8]) {
#if MICROSCALE_HAS_FP4_CVT
    return microscale::ptx::cvt_rn_satfinite_e2m1x2_f32_x4(y[0], y[1], y[2], y[3], y[4], y[5], y[6],
                                                           y[7]);
#else
    __trap();
    return static_cast<std::uint32_t>(y[0]);
#endif
  }
};

}  // namespace levels
