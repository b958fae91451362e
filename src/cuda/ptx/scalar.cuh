// FP32 instructions with a modifier that no C++ intrinsic names (PTX ISA, "Floating point
// instructions").
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

/// 1 / x to within one unit in the last place; of what is below 2^-126 infinity.
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

}  // namespace microscale::ptx
