// Products of f16 and bf16 into f32 (PTX ISA, "wgmma.mma_async"): d += A B^T, or d = A B^T unless
// `accumulate`. A is 64 x 16, from shared memory by descriptor or from registers, B N x 16 by
// descriptor, K-major both, but B of `transposed`, which is MN-major: rows of B lie across K.
// sm_90a.
//
// Thread t of the 128 has of D, register i: row 16 (t / 32) + t % 32 / 4 + 8 (i / 2 % 2), column
// 8 (i / 4) + 2 (t % 4) + i % 2.
// Of A, register r holds row 16 (t / 32) + t % 32 / 4 + 8 (r % 2), K 2 (t % 4) + 8 (r / 2) in its
// low half and the next in its high one.
#pragma once

#include <cstdint>

#include "cuda/ptx/wgmma_operands.cuh"

namespace microscale::ptx {

__device__ inline void wgmma_m64n16k16_f32_f16_f16(float (&d)[8], const std::uint32_t (&a)[4],
                                                   std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_8_REGISTERS("m64n16k16.f32.f16.f16", ", 0");
}

__device__ inline void wgmma_m64n32k16_f32_f16_f16(float (&d)[16], const std::uint32_t (&a)[4],
                                                   std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_16_REGISTERS("m64n32k16.f32.f16.f16", ", 0");
}

__device__ inline void wgmma_m64n64k16_f32_f16_f16(float (&d)[32], const std::uint32_t (&a)[4],
                                                   std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_32_REGISTERS("m64n64k16.f32.f16.f16", ", 0");
}

__device__ inline void wgmma_m64n64k16_f32_f16_f16(float (&d)[32], std::uint64_t a, std::uint64_t b,
                                                   bool accumulate) {
  MICROSCALE_WGMMA_32_SHARED("m64n64k16.f32.f16.f16", ", 0, 0");
}

__device__ inline void wgmma_m64n64k16_f32_f16_f16_transposed(float (&d)[32],
                                                              const std::uint32_t (&a)[4],
                                                              std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_32_REGISTERS("m64n64k16.f32.f16.f16", ", 1");
}

__device__ inline void wgmma_m64n128k16_f32_f16_f16_transposed(float (&d)[64],
                                                               const std::uint32_t (&a)[4],
                                                               std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_REGISTERS("m64n128k16.f32.f16.f16", ", 1");
}

__device__ inline void wgmma_m64n256k16_f32_f16_f16_transposed(float (&d)[128],
                                                               const std::uint32_t (&a)[4],
                                                               std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_REGISTERS("m64n256k16.f32.f16.f16", ", 1");
}

__device__ inline void wgmma_m64n128k16_f32_f16_f16(float (&d)[64], std::uint64_t a,
                                                    std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_SHARED("m64n128k16.f32.f16.f16", ", 0, 0");
}

__device__ inline void wgmma_m64n128k16_f32_f16_f16(float (&d)[64], const std::uint32_t (&a)[4],
                                                    std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_REGISTERS("m64n128k16.f32.f16.f16", ", 0");
}

__device__ inline void wgmma_m64n256k16_f32_f16_f16(float (&d)[128], std::uint64_t a,
                                                    std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_SHARED("m64n256k16.f32.f16.f16", ", 0, 0");
}

__device__ inline void wgmma_m64n192k16_f32_f16_f16(float (&d)[96], const std::uint32_t (&a)[4],
                                                    std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_96_REGISTERS("m64n192k16.f32.f16.f16", ", 0");
}

__device__ inline void wgmma_m64n256k16_f32_f16_f16(float (&d)[128], const std::uint32_t (&a)[4],
                                                    std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_REGISTERS("m64n256k16.f32.f16.f16", ", 0");
}

__device__ inline void wgmma_m64n16k16_f32_bf16_bf16(float (&d)[8], const std::uint32_t (&a)[4],
                                                     std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_8_REGISTERS("m64n16k16.f32.bf16.bf16", ", 0");
}

__device__ inline void wgmma_m64n32k16_f32_bf16_bf16(float (&d)[16], const std::uint32_t (&a)[4],
                                                     std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_16_REGISTERS("m64n32k16.f32.bf16.bf16", ", 0");
}

__device__ inline void wgmma_m64n64k16_f32_bf16_bf16(float (&d)[32], const std::uint32_t (&a)[4],
                                                     std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_32_REGISTERS("m64n64k16.f32.bf16.bf16", ", 0");
}

__device__ inline void wgmma_m64n128k16_f32_bf16_bf16(float (&d)[64], std::uint64_t a,
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_SHARED("m64n128k16.f32.bf16.bf16", ", 0, 0");
}

__device__ inline void wgmma_m64n128k16_f32_bf16_bf16(float (&d)[64], const std::uint32_t (&a)[4],
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_REGISTERS("m64n128k16.f32.bf16.bf16", ", 0");
}

__device__ inline void wgmma_m64n256k16_f32_bf16_bf16(float (&d)[128], std::uint64_t a,
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_SHARED("m64n256k16.f32.bf16.bf16", ", 0, 0");
}

__device__ inline void wgmma_m64n192k16_f32_bf16_bf16(float (&d)[96], const std::uint32_t (&a)[4],
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_96_REGISTERS("m64n192k16.f32.bf16.bf16", ", 0");
}

__device__ inline void wgmma_m64n256k16_f32_bf16_bf16(float (&d)[128], const std::uint32_t (&a)[4],
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_REGISTERS("m64n256k16.f32.bf16.bf16", ", 0");
}

}  // namespace microscale::ptx
