// Eight elements times a multiplier to eight codes, nearest even.
//
// E2M1 without a conversion instruction: for y = |x| * multiplier the code is the least of three
// straight lines, each rounded to an integer by one fused multiply-add onto a constant whose unit
// is 1:
//     2 y        codes 0 to 4
//     y + 2      codes 4 to 6, where codes are 1 apart
//     a y + 5    6 up to and including y = 5, 7 above; a is just below 0.3, so that it stays 7 to y
//     = 8.3
// y never exceeds 8: it saturates there in FP32; in packed arithmetic every E8M0 rule keeps amax
// below 8.
#pragma once

#include <cstdint>

#include "cuda/block/input_chunk.cuh"
#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/scalar.cuh"
#include "formats/elements.hpp"

namespace microscale::cuda {

/// Any input at all, by the codec that defines it. For the blocks that the fast paths leave out.
template <class Input>
__device__ __noinline__ std::uint32_t encode_e2m1_any_words(uint4 low, uint4 high,
                                                            float multiplier) {
  const std::uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  std::uint32_t w[Input::words];
#pragma unroll
  for (int i = 0; i < Input::words; ++i) w[i] = words[i];
  std::uint32_t codes = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    codes |= static_cast<std::uint32_t>(
                 E2M1::encode(__fmul_rn(Input::value(w, i), multiplier), Rounding::nearest_even))
             << (4 * i);
  return codes;
}

template <class Input>
__device__ std::uint32_t encode_e2m1_any(const std::uint32_t (&w)[Input::words], float multiplier) {
  constexpr int second = Input::words == 8 ? 4 : 0;
  return encode_e2m1_any_words<Input>(
      make_uint4(w[0], w[1], w[2], w[3]),
      make_uint4(w[second], w[second + 1], w[second + 2], w[second + 3]), multiplier);
}

/// Finite x, multiplier >= 2^-100 or 0.
template <class Input>
__device__ std::uint32_t encode_e2m1_f32(const std::uint32_t (&w)[Input::words], float multiplier) {
  constexpr float unit = 8388608.0f;                   // 2^23
  const float eighth = __fmul_rn(multiplier, 0.125f);  // exact: y / 8 saturates at 1
  std::uint32_t halves[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    std::uint32_t codes = 0;
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      const float y = ptx::mul_rn_sat_f32(fabsf(Input::value(w, 4 * half + i)), eighth);
      const std::uint32_t line =  // positive floats compare as integers: one instruction for three
          min(min(__float_as_uint(__fmaf_rn(y, 16.0f, unit)),
                  __float_as_uint(__fmaf_rn(y, 8.0f, unit + 2))),
              __float_as_uint(__fmaf_rn(y, 8 * 0x1.333332p-2f, unit + 5)));
      codes = codes * 16 + line;
    }
    halves[half] = codes;  // above bit 15 lies what is left of the constants' exponents
  }
  return __byte_perm(halves[0], halves[1], 0x5410) | Input::e2m1_signs(w);
}

/// Two elements at a time. `byte` is the E8M0 scale; BF16: 1 to 251, FP16: 99 to 141.
template <class Input>
__device__ std::uint32_t encode_e2m1_packed(const std::uint32_t (&w)[4], std::uint32_t byte) {
  using Packed = typename Input::Packed;
  constexpr bool is_bf16 = Input::is_bf16;
  constexpr std::uint32_t unit = is_bf16 ? 0x43004300u : 0x64006400u;  // 128, 1024
  constexpr std::uint32_t unit_plus_2 = is_bf16 ? 0x43024302u : 0x64026402u;
  constexpr std::uint32_t unit_plus_5 = is_bf16 ? 0x43054305u : 0x64056405u;
  std::uint32_t x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    x[i] = w[i] & 0x7FFF7FFFu;    // not abs(): nothing is kept since the maximum
  std::uint32_t one, two, third;  // multiplier, twice it, a times it
  if constexpr (is_bf16) {
    one = (254u - byte) * 0x00800080u;
    two = one + 0x00800080u;
    third = one + (0x3E993E99u - 0x3F803F80u);  // 153 / 512
  } else {
    if (byte <
        113) {  // twice the multiplier would overflow: scale such small elements by 2^14 first
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = ptx::mul_rn_f16x2(x[i], 0x74007400u);
      byte += 14;
    }
    // The multiplier is a normal FP16; a times it may not be, so that product is taken in FP16:
    // exact.
    one = (142u - byte) * 0x04000400u;
    two = one + 0x04000400u;
    third = ptx::mul_rn_f16x2(one, 0x34CC34CCu);  // 307 / 1024
  }
  std::uint32_t r[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    r[i] = __vimin3_u16x2(Packed::fma(x[i], two, unit), Packed::fma(x[i], one, unit_plus_2),
                          Packed::fma(x[i], third, unit_plus_5));  // all positive
  const std::uint32_t low = __byte_perm(r[0], r[1], 0x6240);       // codes 0 2 1 3, one a byte
  const std::uint32_t high = __byte_perm(r[2], r[3], 0x6240);      // codes 4 6 5 7
  const std::uint32_t low_signs = __byte_perm(w[0], w[1], 0x7351);
  const std::uint32_t high_signs = __byte_perm(w[2], w[3], 0x7351);
  const std::uint32_t a = low | ((low_signs >> 4) & 0x08080808u);
  const std::uint32_t b = high | ((high_signs >> 4) & 0x08080808u);
  return __byte_perm(a, b, 0x5410) + __byte_perm(a, b, 0x7632) * 16;
}

#if MICROSCALE_HAS_FP4_CVT
template <class Input>
__device__ std::uint32_t encode_e2m1_cvt(const std::uint32_t (&w)[Input::words], float multiplier) {
  float y[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) y[i] = __fmul_rn(Input::value(w, i), multiplier);
  return ptx::cvt_rn_satfinite_e2m1x2_f32_x4(y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7]);
}
#endif

template <class Codec>
__device__ std::uint32_t cvt_fp8x2(float low, float high) {
  if constexpr (Codec::mantissa_bits == 3)
    return ptx::cvt_rn_satfinite_e4m3x2_f32(low, high);
  else
    return ptx::cvt_rn_satfinite_e5m2x2_f32(low, high);
}

template <class Codec, class Input>
__device__ uint2 encode_fp8(const std::uint32_t (&w)[Input::words], float multiplier) {
  std::uint32_t pair[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    pair[i] = cvt_fp8x2<Codec>(__fmul_rn(Input::value(w, 2 * i), multiplier),
                               __fmul_rn(Input::value(w, 2 * i + 1), multiplier));
  return make_uint2(__byte_perm(pair[0], pair[1], 0x5410), __byte_perm(pair[2], pair[3], 0x5410));
}

/// ZeroCode::positive: codes of -0 become 0.
__device__ inline std::uint32_t positive_zeros_e2m1(std::uint32_t codes) {
  const std::uint32_t nonzero = (codes | codes >> 1 | codes >> 2) & 0x11111111u;
  return codes & (0x77777777u | nonzero << 3);
}

__device__ inline std::uint32_t positive_zeros_fp8(std::uint32_t codes) {
  const std::uint32_t nonzero =
      (codes & 0x7F7F7F7Fu) + 0x7F7F7F7Fu;  // bit 7 of a byte: magnitude > 0
  return codes & (0x7F7F7F7Fu | (nonzero & 0x80808080u));
}

}  // namespace microscale::cuda
