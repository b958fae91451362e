// Level 5: four sums a lane, of four neighbouring blocks, so that no addition waits for the last
// one. The article's attempt 10, 32 to 55 % slower there.
//
// The same instructions an element as level 4. Lanes are now 32 bytes apart: a load touches 32
// sectors and uses 8 bytes of each; the next three find the rest in the L1, if it is still there.
#pragma once

#include "half_dot.cuh"
#include "row.cuh"

namespace levels {

extern "C" __global__ void gemv_5_four_chains(GemvArgs args) {
  const std::int64_t m = warp_row();
  if (m >= args.m) return;
  const GemvRow row = gemv_row(args, m);
  const auto *a = reinterpret_cast<const uint2*>(row.a), *b = reinterpret_cast<const uint2*>(row.b);
  float sums[4] = {};
  for (std::int64_t first = threadIdx.x % 32 * 4; first < row.blocks; first += 32 * 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // k is a multiple of 64: all four are there
      const std::int64_t block = first + i;
      const std::uint32_t scale =
          scale_pair(__ldg(row.a_scales + block), __ldg(row.b_scales + block));
      sums[i] = __fadd_rn(sums[i], half_dot_16(__ldg(a + block), __ldg(b + block), scale));
    }
  }
  store_warp_sum(args, row, __fadd_rn(__fadd_rn(sums[0], sums[1]), __fadd_rn(sums[2], sums[3])));
}

}  // namespace levels
