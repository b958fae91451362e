// What is done to a chunk of keys in FP32 before it is quantized.
#pragma once

#include <cstdint>

#include "cuda/block/input_chunk.cuh"
#include "cuda/block/row_exchange.cuh"
#include "formats/half.hpp"
#include "formats/producers.hpp"

namespace microscale::cuda::append {

/// The orthonormal Hadamard transform of runs of 16 elements: this lane's chunk and its
/// neighbour's.
__device__ inline void transform_sixteens(std::uint32_t (&w)[InputF32::words]) {
  float x[chunk_elements];
#pragma unroll
  for (int i = 0; i < chunk_elements; ++i) x[i] = __uint_as_float(w[i]);
#pragma unroll
  for (int i = 0; i < chunk_elements; i += 2) hadamard_first(x[i], x[i + 1], hadamard_scale(16));
#pragma unroll
  for (int distance = 2; distance < chunk_elements; distance *= 2)
#pragma unroll
    for (int i = 0; i < chunk_elements; ++i)
      if ((i & distance) == 0) hadamard_step(x[i], x[i + distance]);
  const float sign = threadIdx.x & 1 ? -1.0f : 1.0f;
#pragma unroll
  for (int i = 0; i < chunk_elements; ++i)
    w[i] = __float_as_uint(__fmaf_rn(sign, x[i], __shfl_xor_sync(whole_warp, x[i], 1)));
}

/// A NaN's sign is not defined by IEEE arithmetic; every backend writes the same NaN.
__device__ inline void make_nans_canonical(std::uint32_t (&w)[InputF32::words]) {
#pragma unroll
  for (int i = 0; i < chunk_elements; ++i) {
    const float x = __uint_as_float(w[i]);
    w[i] = __float_as_uint(x == x ? x : canonical_nan());
  }
}

template <class Input>
__device__ void to_f32(const std::uint32_t (&raw)[Input::words],
                       std::uint32_t (&w)[InputF32::words]) {
#pragma unroll
  for (int i = 0; i < chunk_elements; ++i) w[i] = __float_as_uint(Input::value(raw, i));
}

}  // namespace microscale::cuda::append
