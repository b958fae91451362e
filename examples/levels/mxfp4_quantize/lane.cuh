// Eight neighbouring elements held by one lane: loaded 16 bytes at a time, encoded into one word.
#pragma once

#include <cstdint>

#include "block.cuh"
#include "cuda/ptx/memory.cuh"

namespace levels {

inline constexpr unsigned whole_warp = 0xFFFFFFFFu;
inline constexpr int lane_elements = 8;

/// One 16-byte load of FP16.
__device__ inline void load_eight(const Half* from, float (&x)[8]) {
  const uint4 v = microscale::ptx::ld_global_nc_no_allocate_v4(from);
  const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 8; ++i)
    x[i] = to_float(Half{static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16))});
}

/// Two of FP32.
__device__ inline void load_eight(const float* from, float (&x)[8]) {
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    const uint4 v = microscale::ptx::ld_global_nc_no_allocate_v4(from + i);
    x[i] = __uint_as_float(v.x);
    x[i + 1] = __uint_as_float(v.y);
    x[i + 2] = __uint_as_float(v.z);
    x[i + 3] = __uint_as_float(v.w);
  }
}

__device__ inline float amax_of_eight(const float (&x)[8]) {
  float amax = fabsf(x[0]);
#pragma unroll
  for (int i = 1; i < 8; ++i) amax = fmaxf(amax, fabsf(x[i]));
  return amax;
}

/// Eight codes, the first in the low four bits.
template <class Encoder>
__device__ std::uint32_t encode_eight(const float (&x)[8], float multiplier) {
  if constexpr (Encoder::blackwell) {
    float y[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) y[i] = x[i] * multiplier;
    return Encoder::encode_eight(y);
  } else {
    std::uint32_t codes = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) codes |= Encoder::encode(x[i] * multiplier) << (4 * i);
    return codes;
  }
}

}  // namespace levels
