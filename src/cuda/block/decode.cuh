// Eight codes to FP32.
#pragma once

#include <cstdint>

#include "cuda/block/encode.cuh"
#include "cuda/ptx/scalar.cuh"

namespace microscale::cuda {

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
