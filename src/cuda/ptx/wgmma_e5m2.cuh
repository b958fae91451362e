// Products of E5M2, or of E4M3 by E5M2, into f32 (PTX ISA, "wgmma.mma_async"): d += A B^T, or d = A
// B^T unless `accumulate`. A is 64 x 32, from shared memory by descriptor or from registers, B N x
// 32 by descriptor, K-major. sm_90a. Places and precision are those of wgmma_e4m3.cuh.
#pragma once

#include <cstdint>

#include "cuda/ptx/wgmma_operands.cuh"

namespace microscale::ptx {

__device__ inline void wgmma_m64n192k32_f32_e5m2_e5m2(float (&d)[96], std::uint64_t a,
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_96_SHARED("m64n192k32.f32.e5m2.e5m2", "");
}

__device__ inline void wgmma_m64n192k32_f32_e5m2_e5m2(float (&d)[96], const std::uint32_t (&a)[4],
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_96_REGISTERS("m64n192k32.f32.e5m2.e5m2", "");
}

__device__ inline void wgmma_m64n128k32_f32_e5m2_e5m2(float (&d)[64], std::uint64_t a,
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_SHARED("m64n128k32.f32.e5m2.e5m2", "");
}

__device__ inline void wgmma_m64n64k32_f32_e4m3_e5m2(float (&d)[32], const std::uint32_t (&a)[4],
                                                     std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_32_REGISTERS("m64n64k32.f32.e4m3.e5m2", "");
}

}  // namespace microscale::ptx
