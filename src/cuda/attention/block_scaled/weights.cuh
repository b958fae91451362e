// From scores to probabilities, in the registers of a warp.
//
// t = p * `factor`, p = e^(s - m), m a row's largest score so far: sums are multiplied when it
// rises, which is a branch that few tiles take.
//
// Two-level: scale = E4M3 of a block's largest t / 6; a lane has half of a block of 16 keys, its
// neighbour the other. Codes are those of t / scale, taken as one exponential.
#pragma once

#include <cfloat>
#include <cstdint>

#include "cuda/attention/block_scaled/keys.cuh"
#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/scalar.cuh"

namespace microscale::cuda::attention::block_scaled {

inline constexpr float log2_2688 = 11.392317422778761f, log2_6 = 2.584962500721156f;
inline constexpr float log2_e = 1.4426950408889634f, ln_2 = 0.6931471805599453f;

/// Of a lane's two rows, g and g + 8 of 16.
struct RowState {
  float factor[2];  // from sums to scores in powers of two; positive
  float bias[2];    // log2 of the factor of t, minus m; FLT_MAX: no score yet
  float sum[2];     // of t, of this lane's keys
};

/// The largest of a lane's 8 keys.
template <int Eights>
__device__ __forceinline__ float largest_of(const float (&s)[Eights][4], int half, int row) {
  float most = fmaxf(s[4 * half][2 * row], s[4 * half][2 * row + 1]);
#pragma unroll
  for (int j = 4 * half + 1; j < 4 * half + 4; ++j)
    most = fmaxf(most, fmaxf(s[j][2 * row], s[j][2 * row + 1]));
  return most;
}

/// Whether a score of this lane's rows is above what `bias` was made for. `largest`: of each
/// row's keys, as far as this lane knows it.
template <int Halves>
__device__ __forceinline__ bool rises(const RowState& rows, const float (&largest)[2][Halves],
                                      float most) {
  bool above = false;
#pragma unroll
  for (int row = 0; row < 2; ++row)
#pragma unroll
    for (int half = 0; half < Halves; ++half)
      above = above || __fmaf_rn(largest[row][half], rows.factor[row], rows.bias[row]) > most;
  return above;
}

/// Takes m up to what the rows' scores ask for. `most`: log2 of the factor of t. Returns through
/// `share` what sums so far are multiplied by.
template <int Halves>
__device__ inline void raise(RowState& rows, const float (&largest)[2][Halves], float most,
                             float (&share)[2]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float x = largest[row][0];
#pragma unroll
    for (int half = 1; half < Halves; ++half) x = fmaxf(x, largest[row][half]);
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
    share[row] = 1.0f;
    if (!(__fmaf_rn(x, rows.factor[row], rows.bias[row]) > most)) continue;
    const float bias = __fsub_rn(most, __fmul_rn(x, rows.factor[row]));
    share[row] =
        rows.bias[row] == FLT_MAX ? 0.0f : ptx::ex2_approx_ftz_f32(__fsub_rn(bias, rows.bias[row]));
    rows.bias[row] = bias;
    rows.sum[row] = __fmul_rn(rows.sum[row], share[row]);
  }
}

/// Codes of a lane's eights of keys, value i of eight (half, row) in nibble i, and their scales:
/// byte `half` of scales[row], of E4M3.
template <int Halves>
struct Codes {
  std::uint32_t codes[Halves][2];
  std::uint32_t scales[2];
};

/// Two E4M3 scales as FP32, none below 2^-10: codes under a scale of 0 must only be finite.
__device__ __forceinline__ void steps_of(std::uint32_t scales, float (&step)[2]) {
  const std::uint32_t halves = ptx::max_nan_f16x2(ptx::cvt_rn_f16x2_e4m3x2(scales), 0x14001400u);
  step[0] = ptx::cvt_f32_f16(halves);
  step[1] = ptx::cvt_f32_f16(halves >> 16);
}

template <int Eights>
__device__ __forceinline__ std::uint32_t codes_of(const float (&p)[Eights][4], int half, int row) {
  const int j = 4 * half, i = 2 * row;
  return ptx::cvt_rn_satfinite_e2m1x2_f32_x4(p[j][i], p[j][i + 1], p[j + 1][i], p[j + 1][i + 1],
                                             p[j + 2][i], p[j + 2][i + 1], p[j + 3][i],
                                             p[j + 3][i + 1]);
}

/// Scores become t / scale, in one or two terms of codes. `largest`: of whole blocks.
template <int Terms, int Eights>
__device__ __forceinline__ void two_level(RowState& rows, float (&s)[Eights][4],
                                          const float (&largest)[2][Eights / 4],
                                          Codes<Eights / 4> (&terms)[Terms]) {
  constexpr int halves = Eights / 4;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float scale[2] = {}, step[2];
#pragma unroll
    for (int half = 0; half < halves; ++half)
      scale[half] = ptx::ex2_approx_ftz_f32(
          __fmaf_rn(largest[row][half], rows.factor[row], __fsub_rn(rows.bias[row], log2_6)));
    terms[0].scales[row] = ptx::cvt_rn_satfinite_e4m3x2_f32(scale[0], scale[1]);
    steps_of(terms[0].scales[row], step);
#pragma unroll
    for (int half = 0; half < halves; ++half) {
      const float bias = __fsub_rn(rows.bias[row], ptx::lg2_approx_ftz_f32(step[half]));
      float sum = 0.0f;
#pragma unroll
      for (int j = 4 * half; j < 4 * half + 4; ++j)
#pragma unroll
        for (int i = 2 * row; i < 2 * row + 2; ++i) {
          s[j][i] = ptx::ex2_approx_ftz_f32(__fmaf_rn(s[j][i], rows.factor[row], bias));
          sum = j == 4 * half && i == 2 * row ? s[j][i] : __fadd_rn(sum, s[j][i]);
        }
      rows.sum[row] = __fmaf_rn(sum, step[half], rows.sum[row]);
      terms[0].codes[half][row] = codes_of(s, half, row);
    }
    if constexpr (Terms == 2) {
      // The rest, in units of the first scale, becomes codes under a scale of its own.
#pragma unroll
      for (int half = 0; half < halves; ++half) {
        std::uint32_t first[4];
        ptx::cvt_rn_f16x2_e2m1x2_x4(first, terms[0].codes[half][row]);
        float most = 0.0f;
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& rest = s[4 * half + j][2 * row + i];
            rest = __fsub_rn(rest, ptx::cvt_f32_f16(first[j] >> (16 * i)));
            most = fmaxf(most, fabsf(rest));
          }
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        scale[half] = __fmul_rn(__fmul_rn(most, step[half]), 1.0f / 6.0f);
      }
      float own[2];
      terms[1].scales[row] = ptx::cvt_rn_satfinite_e4m3x2_f32(scale[0], scale[1]);
      steps_of(terms[1].scales[row], own);
#pragma unroll
      for (int half = 0; half < halves; ++half) {
        const float ratio = __fmul_rn(step[half], ptx::rcp_approx_ftz_f32(own[half]));
#pragma unroll
        for (int j = 4 * half; j < 4 * half + 4; ++j)
#pragma unroll
          for (int i = 2 * row; i < 2 * row + 2; ++i) s[j][i] = __fmul_rn(s[j][i], ratio);
        terms[1].codes[half][row] = codes_of(s, half, row);
      }
    }
  }
}

/// The scales of codes of a tile as the second product takes them: blocks 0 to 3 of row g in lane 4
/// g, of row g + 8 in lane 4 g + 1. A lane has blocks t / 2 and 2 + t / 2.
__device__ __forceinline__ std::uint32_t block_scales(const Codes<2>& codes, int lane) {
  const std::uint32_t own = codes.scales[0] & 0xFFFF, other = codes.scales[1] & 0xFFFF;
  const std::uint32_t mine = lane & 1 ? other : own;
  return ptx::prmt_b32(mine, __shfl_xor_sync(~0u, mine, 2), 0x5140);
}

/// Codes of eights `First` and the next of a half as FP16: the first operand of 16 keys.
template <int First>
__device__ __forceinline__ void codes_to_f16(const Codes<1>& codes, std::uint32_t (&p)[4]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    std::uint32_t pairs[4];
    const std::uint32_t scale = ptx::cvt_rn_f16x2_e4m3x2(codes.scales[row]);
    ptx::cvt_rn_f16x2_e2m1x2_x4(pairs, codes.codes[0][row]);
    p[row] = ptx::mul_rn_f16x2_by_low(pairs[First], scale);
    p[row + 2] = ptx::mul_rn_f16x2_by_low(pairs[First + 1], scale);
  }
}

/// t of these eights as FP16, likewise; its sum.
template <int First>
__device__ __forceinline__ void exact(RowState& rows, const float (&s)[4][4],
                                      std::uint32_t (&p)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = i % 2, j = First + i / 2;
    float t[2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      t[n] =
          ptx::ex2_approx_ftz_f32(__fmaf_rn(s[j][2 * row + n], rows.factor[row], rows.bias[row]));
      rows.sum[row] = __fadd_rn(rows.sum[row], t[n]);
    }
    p[i] = ptx::cvt_rn_f16x2_f32(t[0], t[1]);
  }
}

}  // namespace microscale::cuda::attention::block_scaled
