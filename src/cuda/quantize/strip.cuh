// Two lines of sixteen elements in a thread's registers, to codes and scale bytes: what quantizing
// along rows and along columns shares once a tile lies in shared memory.
//
// A strip of NVFP4 is a whole block. A block of MX is two strips, on two lanes that differ in one
// bit: they exchange their largest magnitudes (both lines of 16-bit types in one shuffle) and each
// computes the block's scale.
#pragma once

#include <cstdint>

#include "cuda/quantize/args.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/block/block_scale.cuh"
#include "cuda/block/encode.cuh"
#include "cuda/block/rounding_errors.cuh"
#include "cuda/quantize/strip_search.cuh"

namespace microscale::cuda {

inline constexpr int strip_elements = 16;

/// Chunks of eight elements of two lines.
template <class Input>
struct Strip {
  std::uint32_t w[2][2][Input::words];  // line, chunk
};

/// Where a strip's results go.
struct StripTarget {
  std::uint8_t* codes[2];   // of each line
  bool inside[2];           // whether that line exists here
  std::uint8_t* scales[2];  // shared memory
};

/// amax[line]: of the whole block, as FP32 bits. Partner: lane mask of the block's other strip, 0
/// for none. True if the strip holds a NaN that does not count.
template <class Input, int Partner>
__device__ bool strip_amax(const QuantizeArgs& args, const Strip<Input>& s,
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

__device__ inline void store_strip_codes(std::uint8_t* address, std::uint32_t first,
                                         std::uint32_t second) {
  ptx::st_global_v2(address, first, second);
}
__device__ inline void store_strip_codes(std::uint8_t* address, uint2 first, uint2 second) {
  ptx::st_global_v4(address, make_uint4(first.x, first.y, second.x, second.y));
}

/// Format::plan_any of both lines, together and without branches where both are ordinary numbers.
template <class Format>
__device__ void plan_strip(const QuantizeArgs& args, const typename Format::Shared& shared,
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

/// Split: the other strip of the block stores the second line's.
template <bool Split>
__device__ void store_strip_scales(const StripTarget& target, bool first_strip,
                                   const std::uint32_t (&scale)[2]) {
  if constexpr (Split) {
    *(first_strip ? target.scales[0] : target.scales[1]) =
        static_cast<std::uint8_t>(first_strip ? scale[0] : scale[1]);
  } else {
    *target.scales[0] = static_cast<std::uint8_t>(scale[0]);
    *target.scales[1] = static_cast<std::uint8_t>(scale[1]);
  }
}

template <class Format>
__device__ void store_strip(const QuantizeArgs& args, const StripTarget& target,
                            typename Format::Codes (&codes)[2][2]) {
  if (args.zero_is_positive) {
#pragma unroll
    for (int i = 0; i < 4; ++i) codes[i / 2][i % 2] = Format::positive_zeros(codes[i / 2][i % 2]);
  }
#pragma unroll
  for (int line = 0; line < 2; ++line)
    if (target.inside[line]) store_strip_codes(target.codes[line], codes[line][0], codes[line][1]);
}

/// All lanes of a warp call it. `first_strip`: of the block's two, if Partner is not 0.
template <class Format, class Input, int Partner>
__device__ void quantize_strip(const QuantizeArgs& args, const typename Format::Shared& shared,
                               const Strip<Input>& s, bool first_strip, const StripTarget& target) {
  std::uint32_t amax[2], told[2], scale[2];
  bool special = strip_amax<Input, Partner>(args, s, amax);
  plan_strip<Format>(args, shared, amax, told, scale);
  if constexpr (Format::searches) {
#pragma unroll
    for (int line = 0; line < 2; ++line) {
      if constexpr (Partner != 0)
        search_strip_mx<Format, Input, Partner>(s.w[line], told[line], scale[line]);
      else
        search_strip_nvfp4<Input>(shared.global_scale, s.w[line], told[line], scale[line]);
    }
  }
  store_strip_scales<Partner != 0>(target, first_strip, scale);
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
  store_strip<Format>(args, target, codes);
}

}  // namespace microscale::cuda
