// A tile of 64 rows to codes and scales, a thread a block of 32 elements, twice: first its largest
// magnitude, then its codes. That is why the tile is staged: no thread loads a whole block.
//
// The scale rule is an argument. Round-up (ScaleRule::rceil) takes the smallest power of two under
// which the largest element is at most 6, the largest code. The article's (ScaleRule::amax_ceil,
// 2^ceil(log2 amax)) makes it at most 1: of eight magnitudes only 0, 0.5 and 1 are ever used, and
// that, not the format, is its cosine of 0.81.
#pragma once

#include "../mxfp4_quantize/encoders/thresholds.cuh"
#include "args.hpp"
#include "cuda/ptx/scalar.cuh"
#include "layouts/container.hpp"
#include "product.cuh"

namespace levels {

/// A staged element.
__device__ inline float number(float x) { return x; }
__device__ inline float number(std::uint16_t half) { return microscale::ptx::cvt_f32_f16(half); }

/// The scale's byte by exponent arithmetic (the article's ceil(log2f(amax)) trusts a logarithm that
/// is rounded); 2^(byte - 127) is the scale.
__device__ inline int scale_byte(const microscale::cuda::E8m0Rule& rule, float amax) {
  if (amax == 0) return rule.zero_byte;
  const int byte = static_cast<int>((__float_as_uint(amax) + rule.addend) >> 23) - rule.emax;
  return max(byte, 0);
}

/// 2^(byte - 127), 2^-127 being subnormal.
__device__ inline float scale_of(int byte) {
  return __uint_as_float(byte > 0 ? static_cast<std::uint32_t>(byte) << 23 : 0x00400000u);
}

/// Scaled numbers to containers by seven comparisons each, ties to even.
struct Ladder {
  __device__ static void encode(std::uint8_t (&four)[4], const float (&y)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      four[i] =
          microscale::container::pack(static_cast<std::uint8_t>(Thresholds<true>::encode(y[i])));
  }
};

/// How a block's numbers are compared, scaled and encoded, as one writes it first.
struct Divide : Ladder {
  __device__ static float larger(float amax, float x) {
    const float magnitude = fabsf(x);
    if (magnitude > amax) amax = magnitude;
    return amax;
  }
  struct Scale {
    float scale;
    __device__ explicit Scale(int byte) : scale(scale_of(byte)) {}
    __device__ float operator()(float x) const { return __fdiv_rn(x, scale); }
  };
};

template <int D, class Arithmetic, class Staged>
__device__ inline void quantize_tile(const Staged* staging, CodeTile to,
                                     const microscale::cuda::E8m0Rule& rule) {
  for (int block = threadIdx.x; block < tile_tokens * D / scale_block; block += attention_threads) {
    const Staged* x = staging + block * scale_block;
    float amax = 0;
#pragma unroll
    for (int i = 0; i < scale_block; ++i) amax = Arithmetic::larger(amax, number(x[i]));
    const int byte = scale_byte(rule, amax);
    to.scales[block] = static_cast<std::uint8_t>(byte);
    const typename Arithmetic::Scale scaled(byte);
#pragma unroll
    for (int i = 0; i < scale_block; i += 4) {
      float y[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) y[j] = scaled(number(x[i + j]));
      std::uint8_t four[4];
      Arithmetic::encode(four, y);
#pragma unroll
      for (int j = 0; j < 4; ++j) to.codes[block * scale_block + i + j] = four[j];
    }
  }
}

}  // namespace levels
