// The searches' sums of squared rounding errors, in the order that formats/arithmetic.hpp fixes: a
// chunk is eight terms one after another from zero; the lanes of a block then add neighbours in
// pairs.
#pragma once

#include <cstdint>

#include "cuda/tile/encode.cuh"

namespace microscale::cuda {

/// |y| on the E2M1 grid, nearest even: the unit is half the power of two at or below y, at least
/// 1/2.
__device__ inline float round_e2m1(float y) {
  const float power = __uint_as_float(max(__float_as_uint(y) & 0x7F800000u, 0x3F800000u));
  const float shifted = __fmaf_rn(power, 4194304.0f, y);  // power * 2^22: its unit is power / 2
  return fminf(__fmaf_rn(power, -4194304.0f, shifted), 6.0f);
}

/// Squared errors of one chunk, finite elements, in units of the scaled values.
template <class Codec, class Input>
__device__ float chunk_error(const std::uint32_t (&w)[Input::words], float multiplier) {
  float sum = 0.0f;
  if constexpr (Codec::mantissa_bits == 1) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float y = __fmul_rn(fabsf(Input::value(w, i)), multiplier);
      const float error = __fsub_rn(y, round_e2m1(y));
      sum = __fmaf_rn(error, error, sum);
    }
  } else {
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      const float y0 = __fmul_rn(Input::value(w, i), multiplier);
      const float y1 = __fmul_rn(Input::value(w, i + 1), multiplier);
      const std::uint32_t rounded = cvt_f16x2<Codec>(cvt_fp8x2<Codec>(y0, y1));
      const float e0 = __fsub_rn(y0, ptx::cvt_f32_f16(rounded & 0xFFFFu));
      const float e1 = __fsub_rn(y1, ptx::cvt_f32_f16(rounded >> 16));
      sum = __fmaf_rn(e0, e0, sum);
      sum = __fmaf_rn(e1, e1, sum);
    }
  }
  return sum;
}

/// The same in BF16 arithmetic, where scaled values and errors are exact, two elements at a time;
/// only the sum is FP32. `byte` is the E8M0 scale, 1 to 253. Clamp: scaled values may exceed 6.
template <bool Clamp>
__device__ float chunk_error_e2m1_bf16(const std::uint32_t (&w)[4], std::uint32_t byte) {
  constexpr std::uint32_t one = 0x3F803F80u, six = 0x40C040C0u;
  constexpr std::uint32_t plus_64 = 0x42804280u, minus_64 = 0xC280C280u, minus_1 = 0xBF80BF80u;
  const std::uint32_t multiplier = (254u - byte) * 0x00800080u;
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t y = ptx::fma_rn_bf16x2(ptx::abs_bf16x2(w[i]), multiplier, 0x80008000u);
    const std::uint32_t power = ptx::max_nan_bf16x2(y & 0x7F807F80u, one);  // its unit is power / 2
    const std::uint32_t shifted = ptx::fma_rn_bf16x2(power, plus_64, y);
    std::uint32_t rounded = ptx::fma_rn_bf16x2(power, minus_64, shifted);
    if constexpr (Clamp) rounded = ptx::min_bf16x2(rounded, six);
    const std::uint32_t error = ptx::fma_rn_bf16x2(rounded, minus_1, y);
    const float even = PackedBf16::widen(error), odd = PackedBf16::widen_high(error);
    sum = __fmaf_rn(even, even, sum);
    sum = __fmaf_rn(odd, odd, sum);
  }
  return sum;
}

/// Adds the chunk sums of a block's neighbouring lanes; every lane gets the same bits.
template <int Lanes>
__device__ float block_total(float sum) {
#pragma unroll
  for (int distance = 1; distance < Lanes; distance *= 2)
    sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, distance));
  return sum;
}

}  // namespace microscale::cuda
