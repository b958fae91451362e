// Products of E4M3 into f32 (PTX ISA, "wgmma.mma_async"): d += A B^T, or d = A B^T unless
// `accumulate`. A is 64 x 32, from shared memory by descriptor or from registers, B N x 32 by
// descriptor, K-major both. sm_90a. Sums keep 13 bits behind the leading one (emulator/tensor).
//
// Thread t of the 128 has of D, register i: row 16 (t / 32) + t % 32 / 4 + 8 (i / 2 % 2), column
// 8 (i / 4) + 2 (t % 4) + i % 2.
// Of A, register r holds row 16 (t / 32) + t % 32 / 4 + 8 (r % 2), K 4 (t % 4) + 16 (r / 2) in its
// lowest byte and the next ones behind.
#pragma once

#include <cstdint>

#include "cuda/ptx/wgmma_operands.cuh"

namespace microscale::ptx {

__device__ inline void wgmma_m64n128k32_f32_e4m3_e4m3(float (&d)[64], std::uint64_t a,
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_SHARED("m64n128k32.f32.e4m3.e4m3", "");
}

__device__ inline void wgmma_m64n128k32_f32_e4m3_e4m3(float (&d)[64], const std::uint32_t (&a)[4],
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_REGISTERS("m64n128k32.f32.e4m3.e4m3", "");
}

__device__ inline void wgmma_m64n256k32_f32_e4m3_e4m3(float (&d)[128], std::uint64_t a,
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_SHARED("m64n256k32.f32.e4m3.e4m3", "");
}

__device__ inline void wgmma_m64n256k32_f32_e4m3_e4m3(float (&d)[128], const std::uint32_t (&a)[4],
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_REGISTERS("m64n256k32.f32.e4m3.e4m3", "");
}

}  // namespace microscale::ptx
