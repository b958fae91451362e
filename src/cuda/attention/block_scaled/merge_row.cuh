// Attention whose keys were cut into parts: a block merges those of a row.
#pragma once

#include "cuda/attention/block_scaled/plan.hpp"
#include "cuda/attention/merge.cuh"
#include "cuda/block/grid_order.cuh"

namespace microscale::cuda::block_attention {

template <int D, int BlockRows>
__device__ void merge_row(const Args& args) {
  follow_previous_grid();
  const int index = static_cast<int>(blockIdx.x), number = index / args.merged_rows;
  const DecodeItem item(args, number, BlockRows, [](int) { return 0; });  // nothing of keys
  if (const int row = index - number * args.merged_rows; row < item.count)
    AttentionDecodeMerge<D, BlockRows>::merge(args, item, row);
}

}  // namespace microscale::cuda::block_attention
