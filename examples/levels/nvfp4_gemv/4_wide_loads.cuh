// Level 4: one load of 8 bytes in place of two of 4; bytes are cut out of the words as before. The
// article's attempt 9, 16 to 25 % slower there.
//
// Half the load instructions for codes, every sector touched once, the same arithmetic and the same
// bits as level 3: a difference can only come from how loads are served.
#pragma once

#include "half_dot.cuh"
#include "row.cuh"

namespace levels {

extern "C" __global__ void gemv_4_wide_loads(GemvArgs args) {
  const std::int64_t m = warp_row();
  if (m >= args.m) return;
  const GemvRow row = gemv_row(args, m);
  const auto *a = reinterpret_cast<const uint2*>(row.a), *b = reinterpret_cast<const uint2*>(row.b);
  float sum = 0.0f;
#pragma unroll 4
  for (std::int64_t block = threadIdx.x % 32; block < row.blocks; block += 32) {
    const std::uint32_t scale =
        scale_pair(__ldg(row.a_scales + block), __ldg(row.b_scales + block));
    sum = __fadd_rn(sum, half_dot_16(__ldg(a + block), __ldg(b + block), scale));
  }
  store_warp_sum(args, row, sum);
}

}  // namespace levels
