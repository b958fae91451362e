// From a block's largest magnitude to its scale byte and what its elements are multiplied by.
#pragma once

#include <cstdint>

#include "cuda/block/quantize_args.hpp"
#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/scalar.cuh"
#include "formats/e8m0.hpp"
#include "formats/nvfp4.hpp"

namespace microscale::cuda {

// What the lanes of a block are told: the E8M0 byte (MX) or the multiplier's FP32 bits (NVFP4); or
// nan_block; MX with the top bit set if the block holds an infinity.
inline constexpr std::uint32_t nan_block = 0xFFFFFFFFu;
inline constexpr std::uint32_t holds_infinity = 0x80000000u;
inline constexpr std::uint32_t keep_scale =
    0x100;  // beside a scale byte: no search over this block
inline constexpr std::uint32_t infinity_bits = 0x7F800000u;

/// The largest magnitude of a chunk with a NaN in it, NaNs left out.
template <class Input>
__device__ std::uint32_t amax_without_nan(const std::uint32_t (&w)[Input::words]) {
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t magnitude = __float_as_uint(Input::value(w, i)) & 0x7FFFFFFFu;
    if (magnitude <= infinity_bits) largest = max(largest, magnitude);
  }
  return largest;
}

/// Whether a block that is not finite becomes NaN as a whole.
__device__ inline bool is_nan_block(const QuantizeArgs& args, std::uint32_t amax) {
  return amax > infinity_bits ? args.nan_propagates != 0 : amax == infinity_bits && args.inf_is_nan;
}

/// The byte of a block whose largest magnitude has these bits; finite.
__device__ inline std::uint32_t e8m0_byte(const QuantizeArgs& args, std::uint32_t amax) {
  if (amax == 0) return static_cast<std::uint32_t>(args.zero_byte);
  int byte =
      static_cast<int>((amax + static_cast<std::uint32_t>(args.scale_addend)) >> 23) - args.emax;
  // Only the rules with emax 0 see a difference between subnormals: `amax_ceil` (an addend) rounds
  // up above 2^-127, `amax_floor` never.
  if (amax < 0x00800000u && args.emax == 0) byte = args.scale_addend != 0 && amax > 0x00400000u;
  return static_cast<std::uint32_t>(byte < 0 ? 0 : byte > e8m0_max ? e8m0_max : byte);
}

/// E4M3 code, 0x00 to 0x7E, as FP32.
__device__ inline float decode_e4m3(std::uint32_t code) {
  return ptx::cvt_f32_f16(ptx::cvt_rn_f16x2_e4m3x2(code));
}

__device__ inline float nvfp4_multiplier_rn(std::uint32_t code, float global_scale) {
  if (code == 0) return 0.0f;
  return fminf(__frcp_rn(__fmul_rn(decode_e4m3(code), global_scale)), largest_float);
}

/// Of 4 over 6: the code nearest to amax / 4 / g.
__device__ inline std::uint32_t nvfp4_four_code(std::uint32_t amax, float scale_factor) {
  const float six = __fmul_rn(__uint_as_float(amax), scale_factor);
  return ptx::cvt_rn_satfinite_e4m3x2_f32(__fmul_rn(six, 1.5f), 0.0f) & 0xFFu;
}

/// `amax` finite.
__device__ inline std::uint32_t nvfp4_nearest_code(std::uint32_t amax, float scale_factor) {
  if (amax == 0) return 0;
  return ptx::cvt_rn_satfinite_e4m3x2_f32(__fmul_rn(__uint_as_float(amax), scale_factor), 0.0f) &
         0xFFu;
}

}  // namespace microscale::cuda
