// Level 2: k is split over gridDim.z, partial sums meet in FP32 by atomic additions, and a second
// kernel makes them FP16. The article's attempts 5 and 8.
//
// Products as in level 1. Additions happen in the order in which blocks arrive: the same call twice
// may give other bits. Bytes more: 4 read and written a row and part, 6 a row in the second kernel.
// Limit: as level 1, 32 sectors a load; there are 16 times as many warps to wait with.
#pragma once

#include "1_thread_per_row.cuh"

namespace levels {

extern "C" __global__ void gemv_2_split_k(GemvArgs args) {
  const std::int64_t m = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (m >= args.m) return;
  const GemvRow row = gemv_row(args, m);
  const std::int64_t part = (row.blocks + gridDim.z - 1) / gridDim.z, first = part * blockIdx.z;
  if (first >= row.blocks) return;
  atomicAdd(args.sums + row.output, thread_sum(row, first, min(first + part, row.blocks)));
}

/// Leaves zeros behind for the next run.
extern "C" __global__ void gemv_2_convert(GemvArgs args) {
  const std::int64_t m = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (m >= args.m) return;
  const std::int64_t output = blockIdx.y * args.m + m;
  store_half(args.c + output, args.sums[output]);
  args.sums[output] = 0.0f;
}

}  // namespace levels
