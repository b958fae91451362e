// Sums of warps over their chunks, and of blocks over their parts of the keys, into results.
#pragma once

#include "cuda/tile/attention_rows.cuh"
#include "cuda/tile/grid_order.cuh"

namespace microscale::cuda {

/// Sums of a block's warps, in their order: [warp][row][D], then reference and weight of
/// [warp][row]. Results where keys have one part, else that part.
template <int D, int Rows>
__device__ void merge_warps(const AttentionDecodeArgs& args, const DecodeItem& item, int split,
                            const float* sums) {
  const float* const marks = sums + decode_warps * Rows * D;
  for (int i = threadIdx.x; i < item.count * D; i += decode_threads) {
    const int row = i / D, element = i % D;
    float reference = decode_no_reference, weight = 0.0f, sum = 0.0f;
#pragma unroll
    for (int w = 0; w < decode_warps; ++w)
      reference = fmaxf(reference, marks[(w * Rows + row) * 2]);
#pragma unroll
    for (int w = 0; w < decode_warps; ++w) {
      const float share =
          ptx::ex2_approx_ftz_f32(__fsub_rn(marks[(w * Rows + row) * 2], reference));
      weight = __fadd_rn(weight, __fmul_rn(marks[(w * Rows + row) * 2 + 1], share));
      sum = __fadd_rn(sum, __fmul_rn(sums[(w * Rows + row) * D + element], share));
    }
    if (args.splits == 1) {
      decode_store(args, item, row, element, reference, weight, sum);
      continue;
    }
    const std::int64_t part = static_cast<std::int64_t>(item.index) * args.splits + split;
    args.partial[(part * Rows + row) * D + element] = sum;
    if (element != 0) continue;
    float* const mark =
        args.partial + static_cast<std::int64_t>(gridDim.x) * Rows * D + (part * Rows + row) * 2;
    mark[0] = reference;
    mark[1] = weight;
  }
}

/// Merges the parts of every row in their order; a block has one item.
template <int D, int Rows>
__device__ void attention_decode_merge(const AttentionDecodeArgs& args) {
  follow_previous_grid();
  const DecodeItem item(args, static_cast<int>(blockIdx.x), Rows);
  const std::int64_t first = static_cast<std::int64_t>(item.index) * args.splits;
  const float* const marks =
      args.partial + static_cast<std::int64_t>(gridDim.x) * args.splits * Rows * D;
  for (int i = threadIdx.x; i < item.count * D; i += blockDim.x) {
    const int row = i / D, element = i % D;
    float reference = decode_no_reference, weight = 0.0f, sum = 0.0f;
    for (int s = 0; s < args.splits; ++s)
      reference = fmaxf(reference, marks[((first + s) * Rows + row) * 2]);
    for (int s = 0; s < args.splits; ++s) {
      const float* const mark = marks + ((first + s) * Rows + row) * 2;
      const float share = ptx::ex2_approx_ftz_f32(__fsub_rn(mark[0], reference));
      weight = __fadd_rn(weight, __fmul_rn(mark[1], share));
      sum =
          __fadd_rn(sum, __fmul_rn(args.partial[((first + s) * Rows + row) * D + element], share));
    }
    decode_store(args, item, row, element, reference, weight, sum);
  }
}

}  // namespace microscale::cuda
