// Eight E2M1 codes in their order as pairs of 16-bit elements, by tables of bytes: one prmt looks
// four codes up. 17 instructions for BF16, 15 for FP16.
#pragma once

#include <cstdint>

#include "cuda/ptx/permute.cuh"

namespace microscale::cuda {

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

}  // namespace microscale::cuda
