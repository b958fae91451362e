// Level 1: one thread a row, one byte at a time, all in FP32. The article's attempts 1 to 4.
//
// Every product is exact (12 significant bits); the additions round, one after the other along k.
// Bytes: 0.5625 an element. Lanes read addresses k / 2 bytes apart: 32 sectors a load, one byte
// used of each. Limit: waiting. 7168 rows are 224 warps, not two for each of 132 multiprocessors.
#pragma once

#include "decode.cuh"
#include "row.cuh"

namespace levels {

/// Blocks [first, last) of a row, from the left.
__device__ inline float thread_sum(const GemvRow& row, std::int64_t first, std::int64_t last) {
  float sum = 0.0f;
  for (std::int64_t block = first; block < last; ++block) {
    const float scale =
        __fmul_rn(e4m3_to_float(row.a_scales[block]), e4m3_to_float(row.b_scales[block]));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t a = row.a[8 * block + i], b = row.b[8 * block + i];
      const float low = __fmul_rn(e2m1_to_float(a & 15), e2m1_to_float(b & 15));
      const float high = __fmul_rn(e2m1_to_float(a >> 4), e2m1_to_float(b >> 4));
      sum = __fmaf_rn(low, scale, sum);
      sum = __fmaf_rn(high, scale, sum);
    }
  }
  return sum;
}

extern "C" __global__ void gemv_1_thread_per_row(GemvArgs args) {
  const std::int64_t m = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (m >= args.m) return;
  const GemvRow row = gemv_row(args, m);
  store_half(args.c + row.output, thread_sum(row, 0, row.blocks));
}

}  // namespace levels
