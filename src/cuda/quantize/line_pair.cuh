// Two lines of sixteen elements in a thread's registers, to codes and scale bytes: what quantizing
// along rows and along columns shares once a tile lies in shared memory.
//
// Sixteen elements are a whole block of NVFP4. A block of MX lies on two lanes that differ in one
// bit, its partners: they exchange their largest magnitudes (both lines of 16-bit types in one
// shuffle) and each computes the block's scale.
#pragma once

#include <cstdint>

#include "cuda/block/block_scale.cuh"
#include "cuda/block/encode.cuh"
#include "cuda/block/rounding_errors.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/scalar.cuh"
#include "cuda/quantize/args.hpp"

namespace microscale::cuda {

inline constexpr int pair_elements = 16;

/// Chunks of eight elements of two lines.
template <class Input>
struct LinePair {
  std::uint32_t w[2][2][Input::words];  // line, chunk
};

/// Where the results of a pair of lines go.
struct LinePairTarget {
  std::uint8_t* codes[2];   // of each line
  bool inside[2];           // whether that line exists here
  std::uint8_t* scales[2];  // shared memory
};

// The searches over a pair: the sums of rounding_errors.cuh, a chunk's first, then those of
// neighbouring chunks, then, for MX, of the block's two halves.

/// MX: the next byte if its error is smaller. `w`: the two chunks of one line.
template <class Format, class Input, int Partner>
__device__ void search_pair_mx(const std::uint32_t (&w)[2][Input::words], std::uint32_t& told,
                               std::uint32_t& scale) {
  const std::uint32_t byte = scale & 0xFFu;
  float lower = __fadd_rn(Format::template error<Input, false>(w[0], byte),
                          Format::template error<Input, false>(w[1], byte));
  float upper = __fadd_rn(Format::template error<Input, true>(w[0], byte + 1),
                          Format::template error<Input, true>(w[1], byte + 1));
  lower = __fadd_rn(lower, __shfl_xor_sync(0xFFFFFFFFu, lower, Partner));
  upper = __fadd_rn(upper, __shfl_xor_sync(0xFFFFFFFFu, upper, Partner));
  if (!(scale & keep_scale) && byte != e8m0_max && __fmul_rn(upper, 4.0f) < lower)
    told = scale = byte + 1;
}

/// NVFP4: the best of the window around the nearest code, the first of equals.
template <class Input>
__device__ void search_pair_nvfp4(float global_scale, const std::uint32_t (&w)[2][Input::words],
                                  std::uint32_t& told, std::uint32_t& scale) {
  if (scale & keep_scale) return;
  const int nearest = static_cast<int>(scale & 0xFFu);
  const int first = max(nearest - nvfp4_window_below, 1);
  const int last = min(nearest + nvfp4_window_above, static_cast<int>(nvfp4_max_scale));
  float least = 0.0f;
  for (int code = first; code <= last; ++code) {
    const float value = decode_e4m3(static_cast<std::uint32_t>(code));
    const float multiplier = nvfp4_multiplier_rn(static_cast<std::uint32_t>(code), global_scale);
    const float sum = __fadd_rn(chunk_error<E2M1, Input>(w[0], multiplier),
                                chunk_error<E2M1, Input>(w[1], multiplier));
    const float error = __fmul_rn(sum, __fmul_rn(value, value));
    if (code == first || error < least) {
      least = error;
      scale = static_cast<std::uint32_t>(code);
      told = __float_as_uint(multiplier);
    }
  }
}

/// amax[line]: of the whole block, as FP32 bits. Partner: lane mask of the block's other pair, 0
/// for none. True if the pair holds a NaN that does not count.
template <class Input, int Partner>
__device__ bool pair_amax(const QuantizeArgs& args, const LinePair<Input>& s,
                          std::uint32_t (&amax)[2]) {
  if constexpr (Input::element_bytes == 2) {
    if (args.nan_propagates) {
      using Packed = typename Input::Packed;
      const std::uint32_t a =
          Packed::max_abs(Input::amax_pair(s.w[0][0]), Input::amax_pair(s.w[0][1]));
      const std::uint32_t b =
          Packed::max_abs(Input::amax_pair(s.w[1][0]), Input::amax_pair(s.w[1][1]));
      std::uint32_t both = Packed::max_abs(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632));
      if constexpr (Partner != 0)
        both = Packed::max_abs(both, __shfl_xor_sync(0xFFFFFFFFu, both, Partner));
      both &= 0x7FFF7FFFu;
      amax[0] = __float_as_uint(Packed::widen(both & 0xFFFFu));
      amax[1] = __float_as_uint(Packed::widen_high(both));
      return false;
    }
  }
  bool with_nan = false;
#pragma unroll
  for (int line = 0; line < 2; ++line) {
    amax[line] = max(Input::amax_bits(s.w[line][0]), Input::amax_bits(s.w[line][1]));
    if (!args.nan_propagates && amax[line] > infinity_bits) {
      with_nan = true;
      amax[line] =
          max(amax_without_nan<Input>(s.w[line][0]), amax_without_nan<Input>(s.w[line][1]));
    }
    if constexpr (Partner != 0)
      amax[line] = max(amax[line], __shfl_xor_sync(0xFFFFFFFFu, amax[line], Partner));
  }
  return with_nan;
}

__device__ inline void store_pair_codes(std::uint8_t* address, std::uint32_t first,
                                        std::uint32_t second) {
  ptx::st_global_v2(address, first, second);
}
__device__ inline void store_pair_codes(std::uint8_t* address, uint2 first, uint2 second) {
  ptx::st_global_v4(address, make_uint4(first.x, first.y, second.x, second.y));
}

/// Format::plan_any of both lines, together and without branches where both are ordinary numbers.
template <class Format>
__device__ void plan_pair(const QuantizeArgs& args, const typename Format::Shared& shared,
                          const std::uint32_t (&amax)[2], std::uint32_t (&told)[2],
                          std::uint32_t (&scale)[2]) {
  if constexpr (Format::block == 32) {
    constexpr std::uint32_t least = 0x00800000u;
    if (amax[0] - least < infinity_bits - least && amax[1] - least < infinity_bits - least) {
#pragma unroll
      for (int line = 0; line < 2; ++line) {
        const int byte =
            static_cast<int>((amax[line] + static_cast<std::uint32_t>(args.scale_addend)) >> 23) -
            args.emax;
        told[line] = scale[line] = static_cast<std::uint32_t>(min(max(byte, 0), 254));
      }
      return;
    }
  } else {
    if (amax[0] - 1 < infinity_bits - 1 && amax[1] - 1 < infinity_bits - 1) {
      const std::uint32_t codes = ptx::cvt_rn_satfinite_e4m3x2_f32(
          __fmul_rn(__uint_as_float(amax[0]), shared.scale_factor),
          __fmul_rn(__uint_as_float(amax[1]), shared.scale_factor));
      scale[0] = codes & 0xFFu;
      scale[1] = codes >> 8 & 0xFFu;
#pragma unroll
      for (int line = 0; line < 2; ++line)
        told[line] = __float_as_uint(shared.multipliers[scale[line]]);
      return;
    }
  }
#pragma unroll
  for (int line = 0; line < 2; ++line) {
    const uint2 found = Format::plan_any(args, shared, amax[line]);
    told[line] = found.x;
    scale[line] = found.y;
  }
}

/// Split: the other pair of the block stores the second line's.
template <bool Split>
__device__ void store_pair_scales(const LinePairTarget& target, bool first_pair,
                                  const std::uint32_t (&scale)[2]) {
  if constexpr (Split) {
    *(first_pair ? target.scales[0] : target.scales[1]) =
        static_cast<std::uint8_t>(first_pair ? scale[0] : scale[1]);
  } else {
    *target.scales[0] = static_cast<std::uint8_t>(scale[0]);
    *target.scales[1] = static_cast<std::uint8_t>(scale[1]);
  }
}

template <class Format>
__device__ void store_pair(const QuantizeArgs& args, const LinePairTarget& target,
                           typename Format::Codes (&codes)[2][2]) {
  if (args.zero_is_positive) {
#pragma unroll
    for (int i = 0; i < 4; ++i) codes[i / 2][i % 2] = Format::positive_zeros(codes[i / 2][i % 2]);
  }
#pragma unroll
  for (int line = 0; line < 2; ++line)
    if (target.inside[line]) store_pair_codes(target.codes[line], codes[line][0], codes[line][1]);
}

/// All lanes of a warp call it. `first_pair`: of the block's two, if Partner is not 0.
template <class Format, class Input, int Partner>
__device__ void quantize_pair(const QuantizeArgs& args, const typename Format::Shared& shared,
                              const LinePair<Input>& s, bool first_pair,
                              const LinePairTarget& target) {
  std::uint32_t amax[2], told[2], scale[2];
  bool special = pair_amax<Input, Partner>(args, s, amax);
  plan_pair<Format>(args, shared, amax, told, scale);
  if constexpr (Format::searches) {
#pragma unroll
    for (int line = 0; line < 2; ++line) {
      if constexpr (Partner != 0)
        search_pair_mx<Format, Input, Partner>(s.w[line], told[line], scale[line]);
      else
        search_pair_nvfp4<Input>(shared.global_scale, s.w[line], told[line], scale[line]);
    }
  }
  store_pair_scales<Partner != 0>(target, first_pair, scale);
#pragma unroll
  for (int line = 0; line < 2; ++line)
    special |= !Format::template is_plain<Input>(shared, told[line]);
  typename Format::Codes codes[2][2];
  if (!special) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      codes[i / 2][i % 2] = Format::template encode<Input>(s.w[i / 2][i % 2], told[i / 2]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      codes[i / 2][i % 2] = Format::template encode_any<Input>(s.w[i / 2][i % 2], told[i / 2]);
  }
  store_pair<Format>(args, target, codes);
}

// Pairs of 16-bit elements to E2M1 codes without a conversion instruction, counted in operations
// of the integer pipe, which is what bounds them: the words are encoded in whatever order they
// come, and only codes, eight to a register, are put in order.
//
// Words of a pair, each two elements (low half, high half):
//   along rows     eight of each line, elements (2 i, 2 i + 1)
//   along columns  sixteen, row i of both columns

/// Whether quantize_words() serves the format; elsewhere hardware or quantize_pair() is better.
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

/// As quantize_pair(), where args.nan_propagates. `again` gives the pair's chunks, for blocks
/// that the fast encoders leave out.
template <class Format, class Input, bool Columns, int Partner, class Again>
__device__ void quantize_words(const QuantizeArgs& args, const typename Format::Shared& shared,
                               const std::uint32_t (&w)[16], Again&& again, bool first_pair,
                               const LinePairTarget& target) {
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
  plan_pair<Format>(args, shared, amax, told, scale);
  store_pair_scales<Partner != 0>(target, first_pair, scale);
  std::uint32_t codes[2][2];
  if (Format::template is_plain<Input>(shared, told[0]) &&
      Format::template is_plain<Input>(shared, told[1])) {
    if constexpr (mx)
      encode_words_mx<Input, Columns>(x, signs, told, codes);
    else
      encode_words_f32<Input, Columns>(words, told, codes);
  } else {
    const LinePair<Input> s = again();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      codes[i / 2][i % 2] = Format::template encode_any<Input>(s.w[i / 2][i % 2], told[i / 2]);
  }
  store_pair<Format>(args, target, codes);
}

}  // namespace microscale::cuda
