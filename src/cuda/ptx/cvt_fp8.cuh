// FP8 conversions (PTX ISA, "cvt"): sm_89 and later. Two values at a time; the first operand
// becomes the high byte, so these functions take (low, high) and swap.
#pragma once

#include <cstdint>

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

}  // namespace microscale::ptx
