// Who computes what, and how a sum leaves.
#pragma once

#include <cstdint>

#include "args.hpp"
#include "cuda/ptx/scalar.cuh"

namespace levels {

/// One row of a and the vector it meets.
struct GemvRow {
  const std::uint8_t *a, *b, *a_scales, *b_scales;
  std::int64_t blocks;
  std::int64_t output;  // place in c and in sums
};

__device__ inline GemvRow gemv_row(const GemvArgs& args, std::int64_t row) {
  const std::int64_t l = blockIdx.y, bytes = args.k / 2, blocks = args.k / gemv_block;
  const std::int64_t line = l * args.m + row, vector = l * gemv_vector_rows;
  return {args.a + line * bytes,
          args.b + vector * bytes,
          args.a_scales + line * blocks,
          args.b_scales + vector * blocks,
          blocks,
          line};
}

/// The row of this warp; levels 3 to 7.
__device__ inline std::int64_t warp_row() {
  return static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
}

__device__ inline void store_half(std::uint16_t* to, float value) {
  *to = static_cast<std::uint16_t>(microscale::ptx::cvt_rn_f16x2_f32(value, 0.0f));
}

/// Adds up a warp's sums, always in the same order, and stores the total.
__device__ inline void store_warp_sum(const GemvArgs& args, const GemvRow& row, float sum) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2)
    sum = __fadd_rn(sum, __shfl_down_sync(0xFFFFFFFFu, sum, apart));
  if (threadIdx.x % 32 == 0) store_half(args.c + row.output, sum);
}

}  // namespace levels
