// Level 7: the next block is loaded into registers before this one is computed. The article's
// attempt 12: no gain there.
//
// Instructions an element as level 4 and a few moves; loads and bits the same. One block ahead is
// 18 bytes a lane under way; unrolling four times (level 4) lets the compiler have 72.
#pragma once

#include "half_dot.cuh"
#include "row.cuh"

namespace levels {

struct BlockPair {
  uint2 a, b;
  std::uint32_t a_scale, b_scale;
};

__device__ inline BlockPair load_block(const GemvRow& row, std::int64_t block) {
  return {__ldg(reinterpret_cast<const uint2*>(row.a) + block),
          __ldg(reinterpret_cast<const uint2*>(row.b) + block), __ldg(row.a_scales + block),
          __ldg(row.b_scales + block)};
}

extern "C" __global__ void gemv_7_prefetch(GemvArgs args) {
  const std::int64_t m = warp_row();
  if (m >= args.m) return;
  const GemvRow row = gemv_row(args, m);
  float sum = 0.0f;
  std::int64_t block = threadIdx.x % 32;
  BlockPair next = load_block(row, min(block, row.blocks - 1));
#pragma unroll 1
  while (block < row.blocks) {
    const BlockPair now = next;
    block += 32;
    next = load_block(row, min(block, row.blocks - 1));  // the last one again rather than a branch
    sum = __fadd_rn(sum, half_dot_16(now.a, now.b, scale_pair(now.a_scale, now.b_scale)));
  }
  store_warp_sum(args, row, sum);
}

}  // namespace levels
