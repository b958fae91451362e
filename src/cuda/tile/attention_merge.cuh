// Sums of warps over their chunks, and of blocks over their parts of the keys, into results.
#pragma once

#include "cuda/tile/attention_rows.cuh"
#include "cuda/tile/grid_order.cuh"

namespace microscale::cuda {

/// A row's sum of one element, or its reference and weight, over part `part` of the keys.
template <int D, int Rows>
__device__ void store_part(const AttentionDecodeArgs& args, const DecodeItem& item, int part,
                           int row, int element, float sum) {
  const std::int64_t index = static_cast<std::int64_t>(item.index) * args.parts + part;
  args.partial[(index * Rows + row) * D + element] = sum;
}
template <int D, int Rows>
__device__ void store_mark(const AttentionDecodeArgs& args, const DecodeItem& item, int part,
                           int row, float reference, float weight) {
  const std::int64_t index = static_cast<std::int64_t>(item.index) * args.parts + part,
                     sums = static_cast<std::int64_t>(args.items) * args.parts * Rows * D;
  float* const mark = args.partial + sums + (index * Rows + row) * 2;
  mark[0] = reference;
  mark[1] = weight;
}

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
    if (args.parts == 1) {
      decode_store(args, item, row, element, reference, weight, sum);
      continue;
    }
    store_part<D, Rows>(args, item, split, row, element, sum);
    if (element == 0) store_mark<D, Rows>(args, item, split, row, reference, weight);
  }
}

/// Merges the parts of every row in their order; a block has one item.
template <int D, int Rows>
__device__ void attention_decode_merge(const AttentionDecodeArgs& args) {
  follow_previous_grid();
  const DecodeItem item(args, static_cast<int>(blockIdx.x), Rows);
  const std::int64_t first = static_cast<std::int64_t>(item.index) * args.parts;
  const float* const marks =
      args.partial + static_cast<std::int64_t>(gridDim.x) * args.parts * Rows * D;
  for (int i = threadIdx.x; i < item.count * D; i += blockDim.x) {
    const int row = i / D, element = i % D;
    float reference = decode_no_reference, weight = 0.0f, sum = 0.0f;
    for (int s = 0; s < args.parts; ++s)
      reference = fmaxf(reference, marks[((first + s) * Rows + row) * 2]);
    for (int s = 0; s < args.parts; ++s) {
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
