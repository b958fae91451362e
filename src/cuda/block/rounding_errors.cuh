// The searches' sums of squared rounding errors, in the order that formats/arithmetic.hpp fixes: a
// chunk is eight terms one after another from zero; the lanes of a block then add neighbours in
// pairs.
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"
#include "cuda/block/encode.cuh"

namespace microscale::cuda {

/// y minus the nearest number of the E2M1 grid, up to the sign where two are as near; y >= 0.
/// Clamp: y may exceed 7.
///
/// The grid's unit is half the power of two at or below y, and at least 1/2. y * 2^22 (y at
/// least 1.5) is a multiple of it, and so is what is nearest to y - y * 2^22 among the numbers of
/// that size. (Where y lies just above a power of two, they are twice as fine, and that power is
/// nearest.)
template <bool Clamp>
__device__ float e2m1_error(float y) {
  const float inside = Clamp ? fminf(y, 6.0f) : y, least = fmaxf(inside, 1.5f);
  const float shifted = __fmaf_rn(least, -4194304.0f, inside);
  return __fsub_rn(y, __fmaf_rn(least, 4194304.0f, shifted));
}

/// A block's sum of e2m1_error, squared or absolute, of magnitudes * multiplier: chunk by chunk,
/// then both, as block_sum adds.
template <bool Clamp, bool Absolute>
__device__ float block_error_e2m1(const float (&magnitudes)[16], float multiplier) {
  float sum[2] = {};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const float error = e2m1_error<Clamp>(__fmul_rn(magnitudes[i], multiplier));
    sum[i / 8] =
        Absolute ? __fadd_rn(sum[i / 8], fabsf(error)) : __fmaf_rn(error, error, sum[i / 8]);
  }
  return __fadd_rn(sum[0], sum[1]);
}

/// Squared errors of one chunk, finite elements, in units of the scaled values.
/// Clamp: of E2M1, as above.
template <class Codec, class Input, bool Clamp = true>
__device__ float chunk_error(const std::uint32_t (&w)[Input::words], float multiplier) {
  float sum = 0.0f;
  if constexpr (Codec::mantissa_bits == 1) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float y = __fmul_rn(fabsf(Input::value(w, i)), multiplier);
      const float error = e2m1_error<Clamp>(y);
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
  constexpr std::uint32_t lowest = 0x3FC03FC0u, six = 0x40C040C0u;  // 1.5, 6
  constexpr std::uint32_t plus_64 = 0x42804280u, minus_64 = 0xC280C280u, minus_1 = 0xBF80BF80u;
  const std::uint32_t multiplier = (254u - byte) * 0x00800080u;
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t y = ptx::fma_rn_bf16x2(ptx::abs_bf16x2(w[i]), multiplier, 0x80008000u);
    const std::uint32_t inside = Clamp ? ptx::min_bf16x2(y, six) : y;
    const std::uint32_t least = ptx::max_nan_bf16x2(inside, lowest);  // 2^6 of it as in e2m1_error
    const std::uint32_t shifted = ptx::fma_rn_bf16x2(least, minus_64, inside);
    const std::uint32_t rounded = ptx::fma_rn_bf16x2(least, plus_64, shifted);
    const std::uint32_t error = ptx::fma_rn_bf16x2(rounded, minus_1, y);
    const float even = PackedBf16::widen(error), odd = PackedBf16::widen_high(error);
    sum = __fmaf_rn(even, even, sum);
    sum = __fmaf_rn(odd, odd, sum);
  }
  return sum;
}

}  // namespace microscale::cuda
