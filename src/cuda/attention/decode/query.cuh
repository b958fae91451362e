// Queries as second operands of mma.m16n8k16 in FP16, in the order in which lanes find codes.
#pragma once

#include <cstdint>

#include "cuda/attention/codes.cuh"
#include "cuda/attention/rows.cuh"

namespace microscale::cuda::attention::decode {

/// What the mean of K adds to a row's scores, q . mean times the scale, as a lane of the row's four
/// finds it from its quarter `v` of q.
template <int Count>
__device__ float decode_mean_score(const AttentionDecodeArgs& args, const DecodeItem& item,
                                   const float (&v)[Count]) {
  const int first = static_cast<int>(threadIdx.x & 3) * Count;
  const float* const mean = args.mean + item.kv_head * args.d + first;
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < Count; ++i)
    if (first + i < args.d) sum = __fmaf_rn(v[i], mean[i], sum);
  sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 1));
  sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 2));
  return __fmul_rn(sum, args.scale_log2);
}

/// The rows of an item as they lie in memory, and the scales of all keys and of all values. Lanes 4
/// g to 4 g + 3 have row g of each tile, a quarter each.
template <int D, class Sums>
struct DecodeQuery {
  static constexpr int eights = D / 32, Tiles = Sums::tiles;
  DecodeEight rows[Tiles][eights];
  float global, values_global;

  /// Asks for them.
  __device__ DecodeQuery(const AttentionDecodeArgs& args, const DecodeItem& item) {
    const int lane = static_cast<int>(threadIdx.x & 31), g = lane >> 2, t = lane & 3;
    global = args.global_scales ? args.global_scales[0] : 1.0f;
    values_global = args.global_scales ? args.global_scales[1] : 1.0f;
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      const int row = Sums::row_of(tile, g);
      const std::int64_t at = row < item.count ? item.element(args, args.q, row) + t * (D / 4) : 0;
#pragma unroll
      for (int i = 0; i < eights; ++i) {
        rows[tile][i] = {};
        if (row < item.count && t * (D / 4) + 8 * i < args.d)
          rows[tile][i] = decode_load_eight(args.q, at + 8 * i);
      }
    }
  }
};

/// What they are multiplied as: with a power of two for each row that brings its largest magnitude
/// to [2^14, 2^15). `factor`: what sums of rows 2 t and 2 t + 1 with codes are multiplied by;
/// shared memory of this warp, for every row: `mean_scores`, and `plain_factors`, what sums with
/// keys themselves are multiplied by.
template <class Codes, int D, class Sums, int Tiles>
__device__ void decode_query(const AttentionDecodeArgs& args, const DecodeItem& item,
                             const DecodeQuery<D, Sums>& query, float* mean_scores,
                             float* plain_factors, std::uint32_t (&q)[Tiles][D / 32][4],
                             float (&factor)[Tiles][2]) {
  constexpr int eights = D / 32;
  const int lane = static_cast<int>(threadIdx.x & 31), g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
    const int row = Sums::row_of(tile, g);
    float v[8 * eights];
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < eights; ++i) decode_eight(args.q, query.rows[tile][i], v + 8 * i);
    if (args.mean) {
      const float score = decode_mean_score(args, item, v);
      if (t == 0) mean_scores[row] = score;
    }
    if (args.hadamard != 0) decode_hadamard(v);
#pragma unroll
    for (int i = 0; i < 8 * eights; ++i) largest = ptx::max_nan_abs_f32(largest, v[i]);
    largest = ptx::max_nan_f32(largest, __shfl_xor_sync(~0u, largest, 1));
    largest = ptx::max_nan_f32(largest, __shfl_xor_sync(~0u, largest, 2));
    const int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
    const int shift = exponent == 128 ? -100 : min(14 - exponent, 127);
    // The factor of a sum is positive, so that the largest sum is the largest score.
    const float power = args.scale_log2 < 0.0f ? -power_of_two(shift) : power_of_two(shift);
#pragma unroll
    for (int i = 0; i < eights; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int n = 3 - (j & 1) * 2 - (j >> 1);  // 3, 1; 2, 0
        q[tile][i][j] = ptx::cvt_rn_f16x2_f32(__fmul_rn(v[8 * i + n], power),
                                              __fmul_rn(v[8 * i + n + 4], power));
      }
    const float plain = __fmul_rn(fabsf(args.scale_log2), power_of_two(max(-shift, -127))),
                own = __fmul_rn(plain, query.global);
    if (t == 0) plain_factors[row] = plain;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      factor[tile][j] = __shfl_sync(~0u, own, 8 * t + 4 * j);
      if (!Codes::relative) factor[tile][j] = __fmul_rn(factor[tile][j], Codes::unit);
    }
  }
  __syncwarp();
}

}  // namespace microscale::cuda::attention::decode
