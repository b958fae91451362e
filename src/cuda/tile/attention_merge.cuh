// Sums of warps over their chunks, and of blocks over their parts of the keys, into results.
#pragma once

#include "cuda/tile/attention_rows.cuh"
#include "cuda/tile/grid_order.cuh"

namespace microscale::cuda {

/// A row's sum of one element, or its reference and weight, over part `part` of the keys.
template <int D, int Rows>
__device__ void store_part(const AttentionDecodeArgs& args, const DecodeItem& item, int part,
                           int row, int element, float sum) {
  const std::int64_t index = static_cast<std::int64_t>(item.index) * args.splits + part;
  args.partial[(index * Rows + row) * D + element] = sum;
}
template <int D, int Rows>
__device__ void store_mark(const AttentionDecodeArgs& args, const DecodeItem& item, int part,
                           int row, float reference, float weight) {
  const std::int64_t index = static_cast<std::int64_t>(item.index) * args.splits + part,
                     sums = static_cast<std::int64_t>(args.items) * args.splits * Rows * D;
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
    if (args.splits == 1) {
      decode_store(args, item, row, element, reference, weight, sum);
      continue;
    }
    store_part<D, Rows>(args, item, split, row, element, sum);
    if (element == 0) store_mark<D, Rows>(args, item, split, row, reference, weight);
  }
}

/// Merges the parts of a row; block (x, y) has row y of item x. Groups of threads take every
/// group-th part each, then groups are added in their order.
template <int D, int Rows>
__device__ void attention_decode_merge(const AttentionDecodeArgs& args) {
  constexpr int fours = D / 4, groups = decode_merge_threads / fours;
  __shared__ float shares[decode_most_splits], of_warps[2][decode_merge_threads / 32];
  __shared__ __align__(16) float sums[groups][D];
  follow_previous_grid();
  const int thread = static_cast<int>(threadIdx.x), row = static_cast<int>(blockIdx.y);
  const DecodeItem item(args, static_cast<int>(blockIdx.x), Rows);
  if (row >= item.count) return;
  const std::int64_t first = static_cast<std::int64_t>(item.index) * args.splits,
                     parts = static_cast<std::int64_t>(gridDim.x) * args.splits;
  const float* const partial = args.partial + (first * Rows + row) * D;
  const float* const marks = args.partial + parts * Rows * D + (first * Rows + row) * 2;

  float reference = decode_no_reference, weight = 0.0f;
  for (int s = thread; s < args.splits; s += decode_merge_threads)
    reference = fmaxf(reference, marks[s * Rows * 2]);
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2)
    reference = fmaxf(reference, __shfl_xor_sync(~0u, reference, lanes));
  if (thread % 32 == 0) of_warps[0][thread / 32] = reference;
  __syncthreads();
  for (const float other : of_warps[0]) reference = fmaxf(reference, other);
  for (int s = thread; s < args.splits; s += decode_merge_threads) {
    const float share = ptx::ex2_approx_ftz_f32(__fsub_rn(marks[s * Rows * 2], reference));
    shares[s] = share;
    weight = __fadd_rn(weight, __fmul_rn(marks[s * Rows * 2 + 1], share));
  }
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2)
    weight = __fadd_rn(weight, __shfl_xor_sync(~0u, weight, lanes));
  if (thread % 32 == 0) of_warps[1][thread / 32] = weight;
  __syncthreads();

  const int group = thread / fours, element = thread % fours * 4;
  float4 sum{};
#pragma unroll 4
  for (int s = group; s < args.splits; s += groups) {
    const float4 part = *reinterpret_cast<const float4*>(
        partial + static_cast<std::int64_t>(s) * (Rows * D) + element);
    sum.x = __fadd_rn(sum.x, __fmul_rn(part.x, shares[s]));
    sum.y = __fadd_rn(sum.y, __fmul_rn(part.y, shares[s]));
    sum.z = __fadd_rn(sum.z, __fmul_rn(part.z, shares[s]));
    sum.w = __fadd_rn(sum.w, __fmul_rn(part.w, shares[s]));
  }
  *reinterpret_cast<float4*>(&sums[group][element]) = sum;
  __syncthreads();
  if (thread >= D) return;
  float all = 0.0f, weights = 0.0f;
#pragma unroll
  for (int g = 0; g < groups; ++g) all = __fadd_rn(all, sums[g][thread]);
  for (const float other : of_warps[1]) weights = __fadd_rn(weights, other);
  decode_store(args, item, row, thread, reference, weights, all);
}

}  // namespace microscale::cuda
