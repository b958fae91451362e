// Level 3: one warp a row, a lane takes every 32nd block of 16, pairs of FP16. The article's
// attempt 7, 2.6 to 3.8 times what its B200 could do at best.
//
// Loads: four of 4 bytes a block, two of them b's; lanes are 8 bytes apart, so a load touches 8
// sectors and uses half of each, the next load the other half. Every row decodes b again. FP16
// loses bits and overflows: half_dot.cuh.
#pragma once

#include "half_dot.cuh"
#include "row.cuh"

namespace levels {

template <int Unroll>
__device__ void warp_per_row(const GemvArgs& args) {
  const std::int64_t m = warp_row();
  if (m >= args.m) return;
  const GemvRow row = gemv_row(args, m);
  const auto *a = reinterpret_cast<const std::uint32_t*>(row.a),
             *b = reinterpret_cast<const std::uint32_t*>(row.b);
  float sum = 0.0f;
#pragma unroll Unroll
  for (std::int64_t block = threadIdx.x % 32; block < row.blocks; block += 32) {
    const std::uint32_t scale =
        scale_pair(__ldg(row.a_scales + block), __ldg(row.b_scales + block));
    const uint2 x = make_uint2(a[2 * block], a[2 * block + 1]);
    const uint2 y = make_uint2(b[2 * block], b[2 * block + 1]);
    sum = __fadd_rn(sum, half_dot_16(x, y, scale));
  }
  store_warp_sum(args, row, sum);
}

extern "C" __global__ void gemv_3_warp_per_row(GemvArgs args) { warp_per_row<4>(args); }

}  // namespace levels
