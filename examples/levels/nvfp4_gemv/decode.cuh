// NVFP4 made into numbers. Hopper has no instruction for four-bit codes: their bits are put where a
// float has them, and the difference of the exponents' biases is multiplied in. Both are exact.
#pragma once

#include <cstdint>

#include "args.hpp"
#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/scalar.cuh"

namespace levels {

/// One E2M1 code: sign, two bits of exponent (bias 1), one of mantissa.
__device__ inline float e2m1_to_float(std::uint32_t code) {
  return __fmul_rn(__uint_as_float((code & 8) << 28 | (code & 7) << 22), 0x1p126f);
}

/// One E4M3 scale; every one of them is an FP16 number.
__device__ inline float e4m3_to_float(std::uint32_t scale) {
  return microscale::ptx::cvt_f32_f16(microscale::ptx::cvt_rn_f16x2_e4m3x2(scale));
}

/// Eight codes as four pairs of FP16, byte by byte: one instruction a byte on Blackwell, seven
/// here.
__device__ inline void e2m1_to_pairs(std::uint32_t (&pairs)[4], std::uint32_t codes) {
#if MICROSCALE_HAS_FP4_CVT
  microscale::ptx::cvt_rn_f16x2_e2m1x2_x4(pairs, codes);
#else
  constexpr std::uint32_t two_to_14 = 0x7400'7400u;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t byte = codes >> 8 * i & 0xFFu;
    const std::uint32_t both = byte | byte
                                          << 12;  // one code at bit 0, one at bit 16, and leftovers
    const std::uint32_t bits = (both & 0x0008'0008u) << 12 | (both & 0x0007'0007u) << 9;
    pairs[i] = microscale::ptx::mul_rn_f16x2(bits, two_to_14);
  }
#endif
}

}  // namespace levels
