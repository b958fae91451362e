// Codes of weights as the first operand of mma.m16n8k16, in FP16. Values come out multiplied by a
// power of two that the sums take back (`exponent_bias`), because so a code's bits need only be
// moved.
#pragma once

#include <cstdint>

#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/permute.cuh"
#include "cuda/tile/encode.cuh"
#include "formats/e8m0.hpp"

namespace microscale::cuda {

/// E2M1 as it is in the exponent and mantissa of FP16: 2^-14 times its value, subnormals included.
inline constexpr int e2m1_bits_bias = 14;

/// A word of layouts/fragment_tiles.hpp: one instruction's registers, 9 instructions for 8
/// elements.
__device__ inline void e2m1_of_packed(std::uint32_t word, std::uint32_t (&a)[4]) {
  const std::uint32_t first = word & 0x8E8E8E8Eu;
  const std::uint32_t second = (word >> 3 & 0x0E0E0E0Eu) | (word << 7 & 0x80808080u);
  a[0] = ptx::prmt_b32(first, 0, 0x1404);
  a[1] = ptx::prmt_b32(first, 0, 0x3424);
  a[2] = ptx::prmt_b32(second, 0, 0x1404);
  a[3] = ptx::prmt_b32(second, 0, 0x3424);
}

/// The first and the second register that an instruction takes of a word of plain codes, 11
/// instructions for the two of a word: nibbles 3 and 7, 2 and 6; `second_half`: 1 and 5, 0 and 4
/// (FragmentOrder::fp4_blocks, fp4_lines). All nibbles become E5M2 bytes on the way.
struct NibblePairs {
  std::uint32_t first, second;
};
__device__ inline NibblePairs e2m1_of_word(std::uint32_t word, bool second_half) {
  const std::uint32_t odd = (word & 0x80808080u) | (word >> 3 & 0x0E0E0E0Eu);
  const std::uint32_t even = (word << 4 & 0x80808080u) | (word << 1 & 0x0E0E0E0Eu);
  const int shift = second_half ? 8 : 0;
  return {odd << shift & 0xFF00FF00u, even << shift & 0xFF00FF00u};
}

/// Two E4M3 scales as FP16, the low half of `scales`, their sign left out.
__device__ inline std::uint32_t ue4m3_pair(std::uint32_t scales) {
  return ptx::cvt_rn_f16x2_e4m3x2(scales & 0x7F7Fu);
}
/// Products with e2m1_of_... are multiples of 2^-24, FP16's smallest, with six significant bits:
/// exact.
inline constexpr int nvfp4_bias = e2m1_bits_bias;

/// The scales of rows g and g + 8 of 32 columns, for the sums.
struct RowScales {
  float row, row_8;
};
__device__ inline RowScales e8m0_scales(std::uint32_t bytes) {
  return {decode_e8m0(static_cast<std::uint8_t>(bytes)),
          decode_e8m0(static_cast<std::uint8_t>(bytes >> 8))};
}

}  // namespace microscale::cuda
