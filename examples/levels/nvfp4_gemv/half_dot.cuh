// The product of two blocks in pairs of FP16, as levels 3 to 7 compute it.
//
// Exact: a code, a scale, and a code of b times both scales (at most 10 significant bits), as long
// as it is below 65504. Rounded to 11 bits: that times a code of a (12 bits), and every sum of FP16
// numbers. Lost: what passes 65504. The product of the scales alone does from 256 x 256 on, up to
// 448 x 448 = 200,704: then it is infinite, and times a code of 0 it is NaN.
#pragma once

#include <cstdint>

#include "decode.cuh"

namespace levels {

/// Both scales multiplied, twice in a register.
__device__ inline std::uint32_t scale_pair(std::uint32_t a, std::uint32_t b) {
  const float scale = __fmul_rn(e4m3_to_float(a), e4m3_to_float(b));
  return microscale::ptx::cvt_rn_f16x2_f32(scale, scale);
}

/// Eight products in two chains of two instructions.
__device__ inline std::uint32_t half_dot_8(std::uint32_t a, std::uint32_t b, std::uint32_t scale) {
  using namespace microscale::ptx;
  std::uint32_t x[4], y[4];
  e2m1_to_pairs(x, a);
  e2m1_to_pairs(y, b);
#pragma unroll
  for (std::uint32_t& each : y) each = mul_rn_f16x2(each, scale);
  const std::uint32_t first = fma_rn_f16x2(x[2], y[2], mul_rn_f16x2(x[0], y[0]));
  const std::uint32_t second = fma_rn_f16x2(x[3], y[3], mul_rn_f16x2(x[1], y[1]));
  return add_rn_f16x2(first, second);
}

/// A block's 16 products in FP16, the last addition of all in FP32.
__device__ inline float half_dot_16(uint2 a, uint2 b, std::uint32_t scale) {
  using namespace microscale::ptx;
  const std::uint32_t sum = add_rn_f16x2(half_dot_8(a.x, b.x, scale), half_dot_8(a.y, b.y, scale));
  return __fadd_rn(cvt_f32_f16(sum), cvt_f32_f16(sum >> 16));
}

}  // namespace levels
