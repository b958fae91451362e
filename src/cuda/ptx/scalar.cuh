// Instructions on one register that no C++ intrinsic names: FP32 with a modifier, and bytes and
// bits put together anew (PTX ISA, "Floating point instructions", "prmt", "lop3", "dp2a").
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// a * b, nearest even, clamped to [0, 1]; NaN gives 0.
__device__ inline float mul_rn_sat_f32(float a, float b) {
  float d;
  asm("mul.rn.sat.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}

/// The larger magnitude; a NaN on either side gives the canonical NaN.
__device__ inline float max_nan_abs_f32(float a, float b) {
  float d;
  asm("{\n"
      ".reg .f32 x, y;\n"
      "abs.f32 x, %1;\n"
      "abs.f32 y, %2;\n"
      "max.NaN.f32 %0, x, y;\n"
      "}"
      : "=f"(d)
      : "f"(a), "f"(b));
  return d;
}

/// The larger; a NaN on either side gives the canonical NaN.
__device__ inline float max_nan_f32(float a, float b) {
  float d;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}

/// Two FP32 values as packed BF16, nearest even; NaN gives 0x7FFF.
__device__ inline std::uint32_t cvt_rn_bf16x2_f32(float low, float high) {
  std::uint32_t d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}

/// Two FP32 values as packed FP16, nearest even; NaN gives 0x7FFF.
__device__ inline std::uint32_t cvt_rn_f16x2_f32(float low, float high) {
  std::uint32_t d;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}

/// 2^x to within two units in the last place; results below 2^-126 are 0, as of -infinity.
__device__ inline float ex2_approx_ftz_f32(float x) {
  float d;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(x));
  return d;
}

/// log2 x to within 2^-22 of it, or absolutely near 1; of 0 -infinity, as of a subnormal number.
__device__ inline float lg2_approx_ftz_f32(float x) {
  float d;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(x));
  return d;
}

/// 1 / x to within a unit in the last place; subnormal numbers count and come out as 0.
__device__ inline float rcp_approx_ftz_f32(float x) {
  float d;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(x));
  return d;
}

/// The FP16 value in the low 16 bits, exact.
__device__ inline float cvt_f32_f16(std::uint32_t half) {
  float d;
  asm("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"(static_cast<std::uint16_t>(half)));
  return d;
}

/// Byte i of the result is byte (selector >> 4 i) & 7 of {b, a}; where bit 3 of that nibble is set,
/// its sign bit eight times instead.
__device__ inline std::uint32_t prmt_b32(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  std::uint32_t d;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
  return d;
}

/// Of a where `mask` is set, else of b: "lop3" with table 0xCA, which the compiler leaves whole.
__device__ inline std::uint32_t lop3_select_b32(std::uint32_t mask, std::uint32_t a,
                                                std::uint32_t b) {
  std::uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(d) : "r"(mask), "r"(a), "r"(b));
  return d;
}

/// Both halves of a, times the lowest and the second byte of b, plus c: with 0x100 it is a >> 16,
/// by the unit that multiplies.
__device__ inline std::uint32_t dp2a_lo_u32_u32(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d;
  asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

}  // namespace microscale::ptx
