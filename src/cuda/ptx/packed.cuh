// Arithmetic on two 16-bit numbers in one register (PTX ISA, "Half precision floating point
// instructions", "Integer arithmetic instructions"). No .ftz anywhere: subnormals are kept.
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
