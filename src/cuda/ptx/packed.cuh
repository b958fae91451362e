// Two numbers in one register. Arithmetic on 16-bit ones (PTX ISA, "Half precision floating point
// instructions", "Integer arithmetic instructions"), without .ftz anywhere: subnormals are kept.
// Conversions of two to and from FP8 and FP4 (PTX ISA, "cvt").
#pragma once

#include <cstdint>

namespace microscale::ptx {

__device__ inline std::uint32_t fma_rn_bf16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

__device__ inline std::uint32_t fma_rn_f16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

__device__ inline std::uint32_t add_rn_f16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

/// a * b, nearest even.
__device__ inline std::uint32_t mul_rn_f16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

/// The same with one half of b for both of a's, which takes no instruction of its own.
__device__ inline std::uint32_t mul_rn_f16x2_by_low(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("{\n"
      ".reg .b16 low, high;\n"
      ".reg .b32 both;\n"
      "mov.b32 {low, high}, %2;\n"
      "mov.b32 both, {low, low};\n"
      "mul.rn.f16x2 %0, %1, both;\n"
      "}"
      : "=r"(d)
      : "r"(a), "r"(b));
  return d;
}
__device__ inline std::uint32_t mul_rn_f16x2_by_high(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("{\n"
      ".reg .b16 low, high;\n"
      ".reg .b32 both;\n"
      "mov.b32 {low, high}, %2;\n"
      "mov.b32 both, {high, high};\n"
      "mul.rn.f16x2 %0, %1, both;\n"
      "}"
      : "=r"(d)
      : "r"(a), "r"(b));
  return d;
}

/// a * b, nearest even. sm_90 and later.
__device__ inline std::uint32_t mul_rn_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ inline std::uint32_t mul_rn_bf16x2_by_low(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("{\n"
      ".reg .b16 low, high;\n"
      ".reg .b32 both;\n"
      "mov.b32 {low, high}, %2;\n"
      "mov.b32 both, {low, low};\n"
      "mul.rn.bf16x2 %0, %1, both;\n"
      "}"
      : "=r"(d)
      : "r"(a), "r"(b));
  return d;
}
__device__ inline std::uint32_t mul_rn_bf16x2_by_high(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("{\n"
      ".reg .b16 low, high;\n"
      ".reg .b32 both;\n"
      "mov.b32 {low, high}, %2;\n"
      "mov.b32 both, {high, high};\n"
      "mul.rn.bf16x2 %0, %1, both;\n"
      "}"
      : "=r"(d)
      : "r"(a), "r"(b));
  return d;
}

__device__ inline std::uint32_t min_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("min.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

__device__ inline std::uint32_t min_f16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("min.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

__device__ inline std::uint32_t abs_bf16x2(std::uint32_t a) {
  std::uint32_t d;
  asm("abs.bf16x2 %0, %1;" : "=r"(d) : "r"(a));
  return d;
}

__device__ inline std::uint32_t abs_f16x2(std::uint32_t a) {
  std::uint32_t d;
  asm("abs.f16x2 %0, %1;" : "=r"(d) : "r"(a));
  return d;
}

/// The larger of each pair; a NaN on either side gives the canonical NaN.
__device__ inline std::uint32_t max_nan_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

__device__ inline std::uint32_t max_nan_f16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

/// The larger magnitude of each pair, under a sign that means nothing (the exclusive or of both); a
/// NaN on either side gives a NaN.
__device__ inline std::uint32_t max_nan_xorsign_abs_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

__device__ inline std::uint32_t max_nan_xorsign_abs_f16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.NaN.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

// Integers. sm_90 and later, where an addition and a maximum behind it are one instruction.

__device__ inline std::uint32_t add_s16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("add.s16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

__device__ inline std::uint32_t max_s16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.s16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

__device__ inline std::uint32_t min_s16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("min.s16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

/// The maximum, and at least 0.
__device__ inline std::uint32_t max_relu_s16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.relu.s16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

}  // namespace microscale::ptx

// Conversions to and from FP8 and FP4, two values at a time (PTX ISA, "cvt"). The first operand of
// the instruction becomes the high part, so these functions take (low, high) and swap. FP8: sm_89
// and later. FP4: sm_100f and sm_120f families only; a plain sm_100 or sm_120 target has no such
// instruction, which is why MICROSCALE_HAS_FP4_CVT looks at the family.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000 && \
    (defined(__CUDA_ARCH_FAMILY_SPECIFIC__) || defined(__CUDA_ARCH_SPECIFIC__))
#define MICROSCALE_HAS_FP4_CVT 1
#else
#define MICROSCALE_HAS_FP4_CVT 0
#endif

namespace microscale::ptx {

/// Nearest even, saturating at 448; NaN of either sign gives 0x7F.
__device__ inline std::uint32_t cvt_rn_satfinite_e4m3x2_f32(float low, float high) {
  std::uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  return codes;
}

/// Nearest even, saturating at 57344.
__device__ inline std::uint32_t cvt_rn_satfinite_e5m2x2_f32(float low, float high) {
  std::uint16_t codes;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  return codes;
}

/// Two E4M3 codes (low 16 bits) as packed FP16, exact.
__device__ inline std::uint32_t cvt_rn_f16x2_e4m3x2(std::uint32_t codes) {
  std::uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<std::uint16_t>(codes)));
  return halves;
}

/// Two E5M2 codes (low 16 bits) as packed FP16, exact.
__device__ inline std::uint32_t cvt_rn_f16x2_e5m2x2(std::uint32_t codes) {
  std::uint32_t halves;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<std::uint16_t>(codes)));
  return halves;
}

#if MICROSCALE_HAS_FP4_CVT
/// Two values to one byte, nearest even, saturating at 6, NaN gives 0x7: `low` in bits 3-0.
__device__ inline std::uint32_t cvt_rn_satfinite_e2m1x2_f32(float low, float high) {
  std::uint32_t codes;
  asm("{\n"
      ".reg .b8 b, zero;\n"
      "mov.b16 {zero, b}, 0;\n"
      "cvt.rn.satfinite.e2m1x2.f32 b, %2, %1;\n"
      "mov.b32 %0, {b, zero, zero, zero};\n"
      "}"
      : "=r"(codes)
      : "f"(low), "f"(high));
  return codes;
}

/// Eight values, nearest even, saturating at 6, NaN gives 0x7: value i in nibble i.
__device__ inline std::uint32_t cvt_rn_satfinite_e2m1x2_f32_x4(float v0, float v1, float v2,
                                                               float v3, float v4, float v5,
                                                               float v6, float v7) {
  std::uint32_t codes;
  asm("{\n"
      ".reg .b8 b0, b1, b2, b3;\n"
      "cvt.rn.satfinite.e2m1x2.f32 b0, %2, %1;\n"
      "cvt.rn.satfinite.e2m1x2.f32 b1, %4, %3;\n"
      "cvt.rn.satfinite.e2m1x2.f32 b2, %6, %5;\n"
      "cvt.rn.satfinite.e2m1x2.f32 b3, %8, %7;\n"
      "mov.b32 %0, {b0, b1, b2, b3};\n"
      "}"
      : "=r"(codes)
      : "f"(v0), "f"(v1), "f"(v2), "f"(v3), "f"(v4), "f"(v5), "f"(v6), "f"(v7));
  return codes;
}

/// Eight codes as packed FP16, exact: those of byte i in halves[i], its low four bits in the low
/// half.
__device__ inline void cvt_rn_f16x2_e2m1x2_x4(std::uint32_t (&halves)[4], std::uint32_t codes) {
  asm("{\n"
      ".reg .b8 b0, b1, b2, b3;\n"
      "mov.b32 {b0, b1, b2, b3}, %4;\n"
      "cvt.rn.f16x2.e2m1x2 %0, b0;\n"
      "cvt.rn.f16x2.e2m1x2 %1, b1;\n"
      "cvt.rn.f16x2.e2m1x2 %2, b2;\n"
      "cvt.rn.f16x2.e2m1x2 %3, b3;\n"
      "}"
      : "=r"(halves[0]), "=r"(halves[1]), "=r"(halves[2]), "=r"(halves[3])
      : "r"(codes));
}
#endif

}  // namespace microscale::ptx
