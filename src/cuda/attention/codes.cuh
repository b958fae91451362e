// Codes of keys and values as operands of mma.m16n8k16 in FP16, and their scales.
//
// A 4-bit code comes out as 2^-14 times its value: its bits need only be moved. An 8-bit code is
// converted, which is exact. NVFP4's scales are multiplied in as they are, which is exact; those of
// MX formats as powers of two, from the largest that fits down, relative to the largest that
// counts: exact to 2^-24 of that one (MXFP8: where no scale is below 2^-21 of it). Scales of values
// may go into probabilities instead (cuda/attention/decode/values.cuh).
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/scalar.cuh"
#include "microscale/kv_format.hpp"

namespace microscale::cuda::attention {

/// Byte n of both words, E4M3.
__device__ inline NibbleHalves byte_halves(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t low = ptx::prmt_b32(a, b, 0x5140), high = ptx::prmt_b32(a, b, 0x7362);
  return {{ptx::cvt_rn_f16x2_e4m3x2(low & 0xFFFF), ptx::cvt_rn_f16x2_e4m3x2(low >> 16),
           ptx::cvt_rn_f16x2_e4m3x2(high & 0xFFFF), ptx::cvt_rn_f16x2_e4m3x2(high >> 16)}};
}

/// What codes of 4 bits and of 8 do. `eight`: elements n and n + 4 of eight neighbours; `of_two`:
/// of two tokens, element n of four number `four`.
struct FourBitCodes {
  static constexpr int words = 1;  // of eight elements
  __device__ static NibbleHalves eight(const std::uint32_t* w) { return nibble_halves(*w); }
  template <int Words>
  __device__ static NibbleHalves of_two(const std::uint32_t (&a)[Words],
                                        const std::uint32_t (&b)[Words], int four) {
    return nibble_halves(ptx::prmt_b32(a[four / 2], b[four / 2], four % 2 == 0 ? 0x5410 : 0x7632));
  }
};
struct EightBitCodes {
  static constexpr int words = 2;
  __device__ static NibbleHalves eight(const std::uint32_t* w) { return byte_halves(w[0], w[1]); }
  template <int Words>
  __device__ static NibbleHalves of_two(const std::uint32_t (&a)[Words],
                                        const std::uint32_t (&b)[Words], int four) {
    return byte_halves(a[four], b[four]);
  }
};

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

/// `Bytes` scales of which there are `left`, the others 0. Part: at any address, and there may be
/// fewer.
template <int Bytes, bool Part>
__device__ std::uint32_t shared_scales(std::uint32_t address, int left) {
  if constexpr (!Part) return shared_bytes<Bytes>(address);
  std::uint32_t bytes = 0;
#pragma unroll
  for (int i = 0; i < Bytes; ++i)
    if (i < left) bytes |= ptx::ld_shared_u8(address + i) << (8 * i);
  return bytes;
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
struct DecodeNvfp4 : FourBitCodes {
  static constexpr KvFormat format = KvFormat::nvfp4;
  static constexpr int block = 16;
  static constexpr bool relative = false;  // scales count relative to a reference
  static constexpr float unit = 0x1p14f;   // of what sums are multiplied by
  static constexpr int unit_byte = 0;
  __device__ static std::uint32_t halves(std::uint32_t two) {
    return ptx::cvt_rn_f16x2_e4m3x2(two & 0x7F7Fu);
  }
};

/// Pairs of E8M0 bytes, 16 bits each; `addend`: of a reference, the largest of those that count,
/// which becomes 2^(Largest - 15).
template <int Largest>
struct DecodeE8m0 {
  static constexpr int block = 32;
  static constexpr bool relative = true;
  static constexpr float unit = 1.0f;
  __device__ static std::uint32_t addend(int reference) {
    return static_cast<std::uint32_t>(Largest - reference & 0xFFFF) * 0x10001u;
  }
  /// FP16's exponents; more than Largest where a scale is larger than the reference, or NaN.
  __device__ static std::uint32_t exponents(std::uint32_t bytes, std::uint32_t addend) {
    return ptx::max_relu_s16x2(ptx::add_s16x2(bytes, addend), 0);
  }
  /// Not 0 where one is.
  __device__ static std::uint32_t beyond(std::uint32_t exponents) {
    constexpr std::uint32_t limit = static_cast<std::uint32_t>(-Largest & 0xFFFF) * 0x10001u;
    return ptx::max_relu_s16x2(ptx::add_s16x2(exponents, limit), 0);
  }
  /// FP16 numbers; of NaN NaN.
  __device__ static std::uint32_t halves(std::uint32_t bytes, std::uint32_t addend) {
    const std::uint32_t plain = (exponents(bytes, addend) & 0x1F001Fu) << 10;  // NaN's is longer
    const std::uint32_t low = (bytes & 0xFFFF) == 255 ? 0x7E00u : plain & 0xFFFF,
                        high = bytes >> 16 == 255 ? 0x7E00u : plain >> 16;
    return low | high << 16;
  }
  /// The largest of both but for NaN.
  __device__ static int largest(std::uint32_t bytes) {
    const int low = static_cast<int>(bytes & 0xFFFF), high = static_cast<int>(bytes >> 16);
    return max(low == 255 ? 0 : low, high == 255 ? 0 : high);
  }
};

/// Sums are multiplied by 2^(reference - unit_byte).
struct DecodeMxfp4 : FourBitCodes, DecodeE8m0<30> {
  static constexpr KvFormat format = KvFormat::mxfp4;
  static constexpr int unit_byte = 127 + 30 - 15 - 14;
};
struct DecodeMxfp8 : EightBitCodes, DecodeE8m0<22> {  // 448 * 2^7 is still finite
  static constexpr KvFormat format = KvFormat::mxfp8;
  static constexpr int unit_byte = 127 + 22 - 15;
};

/// Without block scales.
struct DecodeFp8 : EightBitCodes {
  static constexpr KvFormat format = KvFormat::fp8;
  static constexpr int block = 0;
  static constexpr bool relative = false;
  static constexpr float unit = 1.0f;
  static constexpr int unit_byte = 0;
  __device__ static std::uint32_t halves(std::uint32_t) { return 0; }
};

}  // namespace microscale::cuda::attention
