// 4-bit codes of keys and values as operands of mma.m16n8k16 in FP16, and their scales.
//
// A code comes out as 2^-14 times its value: its bits need only be moved. NVFP4's scales are
// multiplied in as they are, which is exact; MXFP4's as powers of two from 2^15 down, relative to
// the largest that counts, exact to 2^-24 of that one.
#pragma once

#include <cstdint>

#include "cuda/ptx/cvt_fp8.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/permute.cuh"
#include "microscale/kv_format.hpp"

namespace microscale::cuda {

/// Nibble n of both halves of a word, as two FP16 numbers.
struct NibbleHalves {
  std::uint32_t n[4];
};
__device__ inline NibbleHalves nibble_halves(std::uint32_t word) {
  const std::uint32_t odd = (word & 0x80808080u) | (word >> 3 & 0x0E0E0E0Eu);
  const std::uint32_t even = (word << 4 & 0x80808080u) | (word << 1 & 0x0E0E0E0Eu);
  return {{ptx::prmt_b32(even, 0, 0x2404), ptx::prmt_b32(odd, 0, 0x2404), even & 0xFF00FF00u,
           odd & 0xFF00FF00u}};
}

/// 2^n, n from -127 to 127.
__device__ inline float power_of_two(int n) {
  return __uint_as_float(n < -126 ? 0x00400000u : static_cast<std::uint32_t>(n + 127) << 23);
}

/// `Bytes` (1, 2 or 4) of shared memory, aligned to as many.
template <int Bytes>
__device__ std::uint32_t shared_bytes(std::uint32_t address) {
  if constexpr (Bytes == 1) return ptx::ld_shared_u8(address);
  if constexpr (Bytes == 2) return ptx::ld_shared_u16(address);
  if constexpr (Bytes == 4) return ptx::ld_shared_b32(address);
}

/// `Words` words of shared memory, aligned to as many, or to 16 bytes.
template <int Words>
__device__ void shared_words(std::uint32_t address, std::uint32_t (&w)[Words]) {
  if constexpr (Words == 1) w[0] = ptx::ld_shared_b32(address);
  if constexpr (Words == 2) {
    const uint2 v = ptx::ld_shared_v2(address);
    w[0] = v.x, w[1] = v.y;
  }
  if constexpr (Words >= 4) {
#pragma unroll
    for (int i = 0; i < Words; i += 4) {
      const uint4 v = ptx::ld_shared_v4(address + 4 * i);
      w[i] = v.x, w[i + 1] = v.y, w[i + 2] = v.z, w[i + 3] = v.w;
    }
  }
}

/// Two E4M3 scale bytes as FP16, their sign left out.
struct DecodeNvfp4 {
  static constexpr KvFormat format = KvFormat::nvfp4;
  static constexpr int block = 16;
  static constexpr bool relative = false;  // scales count relative to a reference
  static constexpr int exponent = 14;      // of what sums are multiplied by
  template <bool Two>                      // else the low half alone
  __device__ static std::uint32_t halves(std::uint32_t two, int) {
    return ptx::cvt_rn_f16x2_e4m3x2(two & 0x7F7Fu);
  }
};

/// Two E8M0 bytes; `reference` is at least as large as those that count.
struct DecodeMxfp4 {
  static constexpr KvFormat format = KvFormat::mxfp4;
  static constexpr int block = 32;
  static constexpr bool relative = true;
  static constexpr int exponent = -1 - 127;  // and the reference
  __device__ static std::uint32_t half(std::uint32_t byte, int reference) {
    const int biased = max(static_cast<int>(byte) - reference + 30, 0);
    return byte == 255 ? 0x7E00u : static_cast<std::uint32_t>(biased) << 10;
  }
  template <bool Two>
  __device__ static std::uint32_t halves(std::uint32_t two, int reference) {
    if constexpr (!Two) return half(two, reference);
    return half(two & 0xFF, reference) | half(two >> 8 & 0xFF, reference) << 16;
  }
  /// The largest of `Bytes` bytes but for NaN.
  template <int Bytes>
  __device__ static std::uint32_t largest(std::uint32_t bytes) {
    std::uint32_t result = 0;
#pragma unroll
    for (int i = 0; i < Bytes; ++i) {
      const std::uint32_t byte = bytes >> (8 * i) & 0xFF;
      result = max(result, byte == 255 ? 0 : byte);
    }
    return result;
  }
};

}  // namespace microscale::cuda
