// Codes and block scales to the numbers that kernels compute with.
//
// E2M1 codes become 16-bit elements in two ways: scaled, in whatever order is cheapest, by moving
// bits (FP16, 2^-14 times their values, or BF16, 2^-126 times: a code's magnitude goes to the
// lowest exponent bits and the highest of the mantissa); and exactly, in their order, by tables of
// bytes.
#pragma once

#include <cstdint>

#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/scalar.cuh"

namespace microscale::cuda {

/// E2M1 as it is in the exponent and mantissa of FP16: 2^-14 times its value, subnormals included.
inline constexpr int e2m1_bits_bias = 14;

/// The bits of two halves that a code has, and where a sign is in a byte.
inline constexpr std::uint32_t e2m1_kept = 0x8E008E00u, sign_bits = 0x80808080u;

/// A word of layouts/fragment_tiles.hpp as BF16: one instruction's registers.
__device__ inline void e2m1_bits_bf16(std::uint32_t word, std::uint32_t (&a)[4]) {
  constexpr std::uint32_t kept = 0x81C081C0u;
  a[0] = word & kept;
  a[1] = __funnelshift_r(word, word, 3) & kept;
  a[2] = __funnelshift_r(word, word, 6) & kept;
  a[3] = (word & 0x001B001Bu) * 0x1084u & kept;  // << 12, << 7 and << 2
}
/// The same as FP16: signs and magnitudes of three registers come from different rotations.
__device__ inline void e2m1_of_packed(std::uint32_t word, std::uint32_t (&a)[4]) {
  constexpr std::uint32_t signs = 0x80008000u;
  const std::uint32_t turned = __funnelshift_r(word, word, 3),
                      last = (word & 0x001B001Bu) * 0x1084u & 0x81C081C0u;
  a[0] = ptx::lop3_select_b32(signs, word, word << 3) & e2m1_kept;
  a[1] = ptx::lop3_select_b32(signs, turned, word) & e2m1_kept;
  a[2] = ptx::lop3_select_b32(signs, __funnelshift_r(word, word, 6), turned) & e2m1_kept;
  a[3] = last * 9u & e2m1_kept;
}

/// Four pairs of FP16 numbers.
struct NibbleHalves {
  std::uint32_t n[4];
};
/// Codes of a word as upper bytes of FP16 beside bits of others, which e2m1_kept clears: those of
/// the upper and of the lower nibbles.
struct NibbleBytes {
  std::uint32_t odd, even;
};
__device__ inline NibbleBytes nibble_bytes(std::uint32_t word) {
  return {ptx::lop3_select_b32(sign_bits, word, word >> 3),
          ptx::lop3_select_b32(sign_bits, word << 4, word << 1)};
}
/// Nibble n of both halves of a word of plain codes.
__device__ inline NibbleHalves nibble_halves(std::uint32_t word) {
  const NibbleBytes bytes = nibble_bytes(word);
  return {{bytes.even << 8 & e2m1_kept, bytes.odd << 8 & e2m1_kept, bytes.even & e2m1_kept,
           bytes.odd & e2m1_kept}};
}

/// The first and the second register that an instruction takes of a word of plain codes: nibbles 3
/// and 7, 2 and 6; `second_half`: 1 and 5, 0 and 4 (FragmentOrder::fp4_blocks, fp4_lines).
struct NibblePairs {
  std::uint32_t first, second;
};
__device__ inline NibblePairs e2m1_of_word(std::uint32_t word, bool second_half) {
  const NibbleHalves halves = nibble_halves(word);
  return second_half ? NibblePairs{halves.n[1], halves.n[0]}
                     : NibblePairs{halves.n[3], halves.n[2]};
}

// Eight codes in their order as pairs of 16-bit elements: one prmt looks four codes up. 17
// instructions for BF16, 15 for FP16.

/// Byte i: bit 7 is the sign of code i of the lower four; the other bits are 0.
__device__ inline std::uint32_t e2m1_signs(std::uint32_t codes) {
  // A code with its sign set selects 0xFF, the sign of a byte of 0x80, else that byte itself.
  return ptx::prmt_b32(0x80808080u, 0x80808080u, codes) << 1 & 0x80808080u;
}

/// Upper bytes of the lower four codes as FP16, whose lower bytes are 0, with their signs.
__device__ inline std::uint32_t e2m1_upper_f16(std::uint32_t codes) {
  return ptx::prmt_b32(0x3E3C3800u, 0x46444240u, codes & 0x7777u) | e2m1_signs(codes);
}

/// pairs[i]: codes 2 i and 2 i + 1.
__device__ inline void e2m1_pairs_f16(std::uint32_t codes, std::uint32_t (&pairs)[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t upper = e2m1_upper_f16(codes >> (16 * half));
    pairs[2 * half] = ptx::prmt_b32(upper, 0, 0x1404);
    pairs[2 * half + 1] = ptx::prmt_b32(upper, 0, 0x3424);
  }
}

__device__ inline void e2m1_pairs_bf16(std::uint32_t codes, std::uint32_t (&pairs)[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t four = codes >> (16 * half), index = four & 0x7777u;
    const std::uint32_t lower = ptx::prmt_b32(0xC0800000u, 0xC0804000u, index);
    const std::uint32_t upper = ptx::prmt_b32(0x3F3F3F00u, 0x40404040u, index) | e2m1_signs(four);
    pairs[2 * half] = ptx::prmt_b32(lower, upper, 0x5140);
    pairs[2 * half + 1] = ptx::prmt_b32(lower, upper, 0x7362);
  }
}

// Codes of weights as the first operand of mma.m16n8k16, in FP16. Values come out multiplied by a
// power of two that the sums take back (`exponent_bias`), because so a code's bits need only be
// moved.

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

/// Eight E2M1 codes to FP32: the top halves of the FP32 values by table, two bytes of table a code.
__device__ inline void decode_e2m1(std::uint32_t codes, float (&values)[8]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t c = codes >> (16 * half);
    const std::uint32_t index = c & 0x7777u;
    const std::uint32_t low = __byte_perm(0xC0800000u, 0xC0804000u, index);  // 0 .5 1 1.5 2 3 4 6
    const std::uint32_t high = __byte_perm(0x3F3F3F00u, 0x40404040u, index);
    const std::uint32_t first = __byte_perm(low, high, 0x5140),
                        second = __byte_perm(low, high, 0x7362);
    values[4 * half] = __uint_as_float(first << 16 | (c & 0x8u) << 28);
    values[4 * half + 1] = __uint_as_float((first & 0xFFFF0000u) | (c & 0x80u) << 24);
    values[4 * half + 2] = __uint_as_float(second << 16 | (c & 0x800u) << 20);
    values[4 * half + 3] = __uint_as_float((second & 0xFFFF0000u) | (c & 0x8000u) << 16);
  }
}

/// Two FP8 codes to packed FP16.
template <class Codec>
__device__ std::uint32_t cvt_f16x2(std::uint32_t codes) {
  if constexpr (Codec::mantissa_bits == 3)
    return ptx::cvt_rn_f16x2_e4m3x2(codes);
  else
    return ptx::cvt_rn_f16x2_e5m2x2(codes);
}

template <class Codec>
__device__ void decode_fp8(uint2 codes, float (&values)[8]) {
  const std::uint32_t pairs[4] = {codes.x & 0xFFFFu, codes.x >> 16, codes.y & 0xFFFFu,
                                  codes.y >> 16};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t halves = cvt_f16x2<Codec>(pairs[i]);
    values[2 * i] = ptx::cvt_f32_f16(halves & 0xFFFFu);
    values[2 * i + 1] = ptx::cvt_f32_f16(halves >> 16);
  }
}

}  // namespace microscale::cuda
