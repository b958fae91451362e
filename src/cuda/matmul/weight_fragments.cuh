// Codes of weights as the first operand of mma.m16n8k16, in FP16. Values come out multiplied by a
// power of two that the sums take back (`exponent_bias`), because so a code's bits need only be
// moved.
#pragma once

#include <cstdint>

#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/permute.cuh"
#include "cuda/block/e2m1_decode.cuh"
#include "cuda/block/encode.cuh"
#include "formats/e8m0.hpp"

namespace microscale::cuda {

/// Two E4M3 scales as FP16, the low half of `scales`, their sign left out.
__device__ inline std::uint32_t ue4m3_pair(std::uint32_t scales) {
  return ptx::cvt_rn_f16x2_e4m3x2(scales & 0x7F7Fu);
}
/// Two of packed weights (fragment_tiles::scale_word), times 2^7: of the first or second block.
inline constexpr int placed_scale_bias = 7;
__device__ inline std::uint32_t placed_scale_pair_f16(std::uint32_t word, bool second) {
  return (second ? __funnelshift_r(word, word, 5) : word << 3) & 0x7F807F80u;
}
/// In BF16, times 2^119.
__device__ inline std::uint32_t placed_scale_pair_bf16(std::uint32_t word, bool second) {
  return ptx::lop3_select_b32(0x0FF00FF0u, second ? __funnelshift_r(word, word, 8) : word,
                              0x70007000u);
}
/// Products with e2m1_of_... are multiples of 2^-24, FP16's smallest, with six significant bits:
/// exact.
inline constexpr int nvfp4_bias = e2m1_bits_bias;

/// The scales of rows g and g + 8 of 32 columns, for the sums.
struct RowScales {
  float row, row_8;
};
/// As decode_e8m0, but for which NaN it is: 255 is infinite at first, and infinity less infinity
/// NaN.
__device__ inline float e8m0_scale(std::uint32_t byte) {
  const float scale = __uint_as_float(max(byte << 23, 0x00400000u));  // 0 is 2^-127
  return __fadd_rn(scale, __fsub_rn(scale, scale));
}
__device__ inline RowScales e8m0_scales(std::uint32_t bytes) {
  return {e8m0_scale(bytes & 0xFFu), e8m0_scale(bytes >> 8 & 0xFFu)};
}

}  // namespace microscale::cuda
