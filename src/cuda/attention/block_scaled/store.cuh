// The end of attention by block-scaled matrix instructions: a warp's sums to results, or to where
// parts of the keys are merged.
#pragma once

#include <cstdint>

#include "cuda/attention/block_scaled/args.hpp"
#include "cuda/attention/block_scaled/weights.cuh"
#include "cuda/attention/merge.cuh"
#include "cuda/attention/rows.cuh"
#include "cuda/block/grid_order.cuh"

namespace microscale::cuda::attention::block_scaled {

/// Two neighbours, the first at an even place.
__device__ inline void store_pair(const DecodeRows& to, std::int64_t at, float x, float y) {
  const auto type = static_cast<DType>(to.type);
  if (type == DType::f32) {
    const auto bits = [](float v) { return __float_as_uint(v == v ? v : canonical_nan()); };
    ptx::st_global_v2(static_cast<float*>(to.data) + at, bits(x), bits(y));
  } else {
    ptx::st_global_b32(
        static_cast<std::uint16_t*>(to.data) + at,
        type == DType::f16 ? ptx::cvt_rn_f16x2_f32(x, y) : ptx::cvt_rn_bf16x2_f32(x, y));
  }
}

/// The sum of a row's weights, and their reference.
__device__ __forceinline__ float2 mark_of(const RowState& rows, int e) {
  float weight = rows.sum[e];
  weight = __fadd_rn(weight, __shfl_xor_sync(~0u, weight, 1));
  weight = __fadd_rn(weight, __shfl_xor_sync(~0u, weight, 2));
  return {weight == 0.0f ? decode_no_reference : -rows.bias[e], weight};
}

/// Rows `first` (this lane's row g) and `first` + 8 of an item: sums `o` of t v, with `global`
/// times their weight, and log-sum-exp. All lanes of the warp call it.
template <int D>
__device__ __forceinline__ void store_rows(const Args& args, const DecodeItem& item, int first,
                                           int lane, const RowState& rows, float global,
                                           const float (&o)[D / 8][4]) {
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    float2 mark = mark_of(rows, e);
    float &reference = mark.x, &weight = mark.y;
    const int row = first + 8 * e;
    if (row >= item.count) continue;
    const float share = decode_sink(args, item.head(args, row), reference, weight);
    if (lane % 4 == 0) decode_store_log_sum_exp(args, item, row, reference, weight);
    const float factor = weight == 0.0f ? 0.0f : __fdiv_rn(__fmul_rn(global, share), weight);
    const std::int64_t at = item.element(args, args.output, row) + 2 * (lane % 4);
#pragma unroll
    for (int j = 0; j < D / 8; ++j)
      store_pair(args.output, at + 8 * j, factor == 0.0f ? 0.0f : __fmul_rn(o[j][2 * e], factor),
                 factor == 0.0f ? 0.0f : __fmul_rn(o[j][2 * e + 1], factor));
  }
}

/// The same rows of one part of the keys: DecodeParts.
template <int D, int BlockRows>
__device__ __forceinline__ void put_rows(const Args& args, const DecodeItem& item, int part,
                                         int first, int lane, const RowState& rows, float global,
                                         const float (&o)[D / 8][4]) {
  const DecodeParts<D, BlockRows> parts(args, item.index);
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const float2 mark = mark_of(rows, e);
    const int row = first + 8 * e;
    if (row >= item.count) continue;
    if (lane % 4 == 0) *parts.mark(part, row) = mark;
    float* const to = reinterpret_cast<float*>(parts.sums(part, row, 0)) + 2 * (lane % 4);
#pragma unroll
    for (int j = 0; j < D / 8; ++j)
      *reinterpret_cast<float2*>(to + 8 * j) =
          mark.y == 0.0f
              ? make_float2(0.0f, 0.0f)
              : make_float2(__fmul_rn(o[j][2 * e], global), __fmul_rn(o[j][2 * e + 1], global));
  }
}

// Attention whose keys were cut into parts: a block merges those of a row.

template <int D, int BlockRows>
__device__ void merge_row(const Args& args) {
  follow_previous_grid();
  const int index = static_cast<int>(blockIdx.x), number = index / args.merged_rows;
  const DecodeItem item(args, number, BlockRows, [](int) { return 0; });  // nothing of keys
  if (const int row = index - number * args.merged_rows; row < item.count)
    AttentionDecodeMerge<D, BlockRows>::merge(args, item, row);
}

}  // namespace microscale::cuda::attention::block_scaled
