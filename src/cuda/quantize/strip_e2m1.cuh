// Strips of 16-bit elements to E2M1 codes without a conversion instruction, counted in operations
// of the integer pipe, which is what bounds them: the words are encoded in whatever order they
// come, and only codes, eight to a register, are put in order.
//
// Words of a strip, each two elements (low half, high half):
//   along rows     eight of each line, elements (2 i, 2 i + 1)
//   along columns  sixteen, row i of both columns
#pragma once

#include <cstdint>

#include "cuda/ptx/permute.cuh"
#include "cuda/quantize/strip.cuh"

namespace microscale::cuda {

/// Whether quantize_words() serves the format; elsewhere hardware or quantize_strip() is better.
template <class Format, class Input>
inline constexpr bool encodes_words = !MICROSCALE_HAS_FP4_CVT && !Format::searches &&
                                      Format::code_bits == 4 && Input::element_bytes == 2;

/// Signs of four words where codes have them (masked by 0x88888888): those of the low halves in
/// bits 3, 7, 11, 15, those of the high halves in bits 19 to 31.
__device__ inline std::uint32_t quad_signs(std::uint32_t w0, std::uint32_t w1, std::uint32_t w2,
                                           std::uint32_t w3) {
  const std::uint32_t even = ptx::prmt_b32(w0, w2, 0xFBD9), odd = ptx::prmt_b32(w1, w3, 0xFBD9);
  return (even & 0x0F0F0F0Fu) | (odd & 0xF0F0F0F0u);
}

/// What packed arithmetic multiplies by: the E8M0 bytes of the low and the high halves, in the
/// range of MxFormat::is_plain.
template <class Input>
struct PackedScale {
  std::uint32_t before, one, two, third;  // first x * before, then as encode_e2m1_packed

  __device__ PackedScale(std::uint32_t low, std::uint32_t high) {
    if constexpr (Input::is_bf16) {
      before = 0;
      one = (254u - low) * 0x80u + (254u - high) * 0x00800000u;
      two = one + 0x00800080u;
      third = one - (0x3F803F80u - 0x3E993E99u);  // 153 / 512
    } else {
      const bool small_low = low < 113, small_high = high < 113;
      before = (small_low ? 0x7400u : 0x3C00u) | (small_high ? 0x74000000u : 0x3C000000u);
      one = (142u - low - (small_low ? 14u : 0u)) * 0x400u +
            (142u - high - (small_high ? 14u : 0u)) * 0x04000000u;
      two = one + 0x04000400u;
      third = ptx::mul_rn_f16x2(one, 0x34CC34CCu);  // 307 / 1024
    }
  }

  /// Magnitudes of four words to codes, in the places of quad_signs().
  __device__ std::uint32_t encode(const std::uint32_t (&x)[4]) const {
    using Packed = typename Input::Packed;
    constexpr std::uint32_t unit = Input::is_bf16 ? 0x43004300u : 0x64006400u;  // 128, 1024
    std::uint32_t codes = 0;
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      std::uint32_t y = x[i];
      if constexpr (!Input::is_bf16) y = ptx::mul_rn_f16x2(y, before);
      const std::uint32_t line =
          Packed::min(Packed::min(Packed::fma(y, two, unit), Packed::fma(y, one, unit + 0x20002u)),
                      Packed::fma(y, third, unit + 0x50005u));
      codes = codes * 16 + line;
    }
    return codes - unit * 0x1111u;
  }
};

/// The three lines of encode_e2m1_f32; y is an eighth of the scaled magnitude, at most 1.
__device__ inline std::uint32_t e2m1_line(float y) {
  constexpr float unit = 8388608.0f;
  // Positive: compared as integers, three at once.
  return min(min(__float_as_uint(__fmaf_rn(y, 16.0f, unit)),
                 __float_as_uint(__fmaf_rn(y, 8.0f, unit + 2))),
             __float_as_uint(__fmaf_rn(y, 8 * 0x1.333332p-2f, unit + 5)));
}

/// amax[line] of the whole block as FP32 bits, from magnitudes.
template <class Input, bool Columns, int Partner>
__device__ void words_amax(const std::uint32_t (&x)[16], std::uint32_t (&amax)[2]) {
  using Packed = typename Input::Packed;
  std::uint32_t half[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    half[h] = x[8 * h];
#pragma unroll
    for (int i = 1; i < 7; i += 2)
      half[h] = Packed::max_nan(Packed::max_nan(half[h], x[8 * h + i]), x[8 * h + i + 1]);
    half[h] = Packed::max_nan(half[h], x[8 * h + 7]);
  }
  if constexpr (!Columns) {  // the halves are lines
    const std::uint32_t even = __byte_perm(half[0], half[1], 0x5410);
    half[1] = __byte_perm(half[0], half[1], 0x7632);
    half[0] = even;
  }
  std::uint32_t both = Packed::max_nan(half[0], half[1]);
  if constexpr (Partner != 0)
    both = Packed::max_nan(both, __shfl_xor_sync(0xFFFFFFFFu, both, Partner));
  amax[0] = __float_as_uint(Packed::widen(both & 0xFFFFu));
  amax[1] = __float_as_uint(Packed::widen_high(both));
}

/// MX: codes of eight elements, codes[line][chunk].
template <class Input, bool Columns>
__device__ void encode_words_mx(const std::uint32_t (&x)[16], const std::uint32_t (&signs)[4],
                                const std::uint32_t (&told)[2], std::uint32_t (&codes)[2][2]) {
  std::uint32_t quad[4];
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    const int line = q / 2;
    const PackedScale<Input> scale(told[Columns ? 0 : line] & 0xFFu,
                                   told[Columns ? 1 : line] & 0xFFu);
    const std::uint32_t four[4] = {x[4 * q], x[4 * q + 1], x[4 * q + 2], x[4 * q + 3]};
    quad[q] = scale.encode(four) | (signs[q] & 0x88888888u);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (Columns)
      codes[i / 2][i % 2] =
          __byte_perm(quad[i % 2 * 2], quad[i % 2 * 2 + 1], i / 2 == 0 ? 0x5410 : 0x7632);
    else
      codes[i / 2][i % 2] = quad[i];
  }
}

/// NVFP4: the same in FP32.
template <class Input, bool Columns>
__device__ void encode_words_f32(const std::uint32_t (&w)[16], const std::uint32_t (&told)[2],
                                 std::uint32_t (&codes)[2][2]) {
  using Packed = typename Input::Packed;
#pragma unroll
  for (int chunk = 0; chunk < 2; ++chunk) {
    std::uint32_t signs[2];
    if constexpr (Columns) {
      const std::uint32_t* v = w + 8 * chunk;
      const std::uint32_t a = quad_signs(v[0], v[1], v[2], v[3]);
      const std::uint32_t b = quad_signs(v[4], v[5], v[6], v[7]);
      signs[0] = __byte_perm(a, b, 0x5410);
      signs[1] = __byte_perm(a, b, 0x7632);
    } else {
#pragma unroll
      for (int line = 0; line < 2; ++line) {
        const std::uint32_t* v = w + 8 * line + 4 * chunk;
        const std::uint32_t a = ptx::prmt_b32(v[0], v[1], 0xFBD9);
        const std::uint32_t b = ptx::prmt_b32(v[2], v[3], 0xFBD9);
        signs[line] =
            (__byte_perm(a, b, 0x5410) & 0x0F0F0F0Fu) | (__byte_perm(a, b, 0x7632) & 0xF0F0F0F0u);
      }
    }
#pragma unroll
    for (int line = 0; line < 2; ++line) {
      const float eighth = __fmul_rn(__uint_as_float(told[line]), 0.125f);
      std::uint32_t sum = 0;
#pragma unroll
      for (int i = 7; i >= 0; --i) {
        const std::uint32_t word = Columns ? w[8 * chunk + i] : w[8 * line + 4 * chunk + i / 2];
        const bool high = Columns ? line == 1 : i % 2 == 1;
        const float value = high ? Packed::widen_high(word) : Packed::widen(word & 0xFFFFu);
        sum = sum * 16 + e2m1_line(ptx::mul_rn_sat_f32(fabsf(value), eighth));
      }
      // The constants' exponents, as in encode_e2m1_f32.
      codes[line][chunk] = (sum - 0xFB000000u) | (signs[line] & 0x88888888u);
    }
  }
}

/// As quantize_strip(), where args.nan_propagates. `again` gives the strip's chunks, for blocks
/// that the fast encoders leave out.
template <class Format, class Input, bool Columns, int Partner, class Again>
__device__ void quantize_words(const QuantizeArgs& args, const typename Format::Shared& shared,
                               const std::uint32_t (&w)[16], Again&& again, bool first_strip,
                               const StripTarget& target) {
  using Packed = typename Input::Packed;
  constexpr bool mx = Format::block == 32;
  std::uint32_t words[16];
  std::uint32_t signs[4] = {};
  if constexpr (!mx || Columns) {
#pragma unroll
    for (int i = 0; i < 16; ++i) words[i] = w[i];
  } else {  // elements (i, i + 4) of a chunk, so that four codes of a half are neighbours
#pragma unroll
    for (int i = 0; i < 16; ++i)
      words[i] = __byte_perm(w[i / 4 * 4 + i % 4 / 2], w[i / 4 * 4 + i % 4 / 2 + 2],
                             i % 2 == 0 ? 0x5410 : 0x7632);
  }
  std::uint32_t x[16];
  if constexpr (mx) {
#pragma unroll
    for (int q = 0; q < 4; ++q)
      signs[q] = quad_signs(words[4 * q], words[4 * q + 1], words[4 * q + 2], words[4 * q + 3]);
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) x[i] = Packed::abs(words[i]);
  std::uint32_t amax[2], told[2], scale[2];
  words_amax<Input, Columns, Partner>(x, amax);
  plan_strip<Format>(args, shared, amax, told, scale);
  store_strip_scales<Partner != 0>(target, first_strip, scale);
  std::uint32_t codes[2][2];
  if (Format::template is_plain<Input>(shared, told[0]) &&
      Format::template is_plain<Input>(shared, told[1])) {
    if constexpr (mx)
      encode_words_mx<Input, Columns>(x, signs, told, codes);
    else
      encode_words_f32<Input, Columns>(words, told, codes);
  } else {
    const Strip<Input> s = again();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      codes[i / 2][i % 2] = Format::template encode_any<Input>(s.w[i / 2][i % 2], told[i / 2]);
  }
  store_strip<Format>(args, target, codes);
}

}  // namespace microscale::cuda
