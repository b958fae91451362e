// Eight elements of q, k or v in any type to FP16, each type with one way to do it.
//
// E2M1 or E4M3 with an E4M3 scale, or none, fit FP16 as they are, and so does FP16. The others are
// taken relative to a reference, the largest exponent of a row or tile: FP16 holds 36 powers of two
// of E2M1's scales below it; what is smaller still loses bits.
#pragma once

#include <cstdint>

#include "cuda/attention/prefill/args.hpp"
#include "cuda/block/decode.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/scalar.cuh"

namespace microscale::cuda::attention::prefill {

/// The least reference, so that 2^exponent is a number of FP32 in both directions.
inline constexpr int least_reference = 14;

/// 2^n twice in FP16; 0 below 2^-24.
__device__ inline std::uint32_t power_pair_f16(int n) {
  const std::uint32_t half = n >= -14   ? static_cast<std::uint32_t>(n + 15) << 10
                             : n >= -24 ? 1u << (n + 24)
                                        : 0u;
  return half * 0x10001u;
}

// Each: `bits` of an element; `block` of a scale, 0 without; whether it is relative; and then
// reference(raw, scale), of which the largest is taken, halves(raw, scale, reference, w): elements
// 2 i and 2 i + 1 in w[i], and exponent(reference): of the power of two that halves lack.

struct PlainElements {
  static constexpr int block = 0;
  static constexpr bool relative = false;
  template <class Raw>
  __device__ static int reference(const Raw&, std::uint32_t) {
    return 0;
  }
  __device__ static int exponent(int) { return 0; }
};

struct ElementsF16 : PlainElements {
  static constexpr int bits = 16;
  using Raw = uint4;
  __device__ static Raw load(const std::uint8_t* from) {
    return ptx::ld_global_nc_no_allocate_v4(from);
  }
  __device__ static void halves(const Raw& raw, std::uint32_t, int, std::uint32_t (&w)[4]) {
    w[0] = raw.x, w[1] = raw.y, w[2] = raw.z, w[3] = raw.w;
  }
};

struct ElementsE4m3 : PlainElements {
  static constexpr int bits = 8;
  using Raw = uint2;
  __device__ static Raw load(const std::uint8_t* from) { return ptx::ld_global_nc_v2(from); }
  __device__ static void halves(const Raw& raw, std::uint32_t, int, std::uint32_t (&w)[4]) {
    w[0] = ptx::cvt_rn_f16x2_e4m3x2(raw.x & 0xFFFFu), w[1] = ptx::cvt_rn_f16x2_e4m3x2(raw.x >> 16);
    w[2] = ptx::cvt_rn_f16x2_e4m3x2(raw.y & 0xFFFFu), w[3] = ptx::cvt_rn_f16x2_e4m3x2(raw.y >> 16);
  }
};

struct ElementsNvfp4 : PlainElements {
  static constexpr int bits = 4, block = 16;
  using Raw = std::uint32_t;
  __device__ static Raw load(const std::uint8_t* from) { return ptx::ld_global_nc_b32(from); }
  __device__ static void halves(const Raw& raw, std::uint32_t scale, int, std::uint32_t (&w)[4]) {
    const std::uint32_t factor = ptx::cvt_rn_f16x2_e4m3x2(scale * 0x101u & 0x7F7Fu);
    e2m1_pairs_f16(raw, w);
#pragma unroll
    for (std::uint32_t& pair : w) pair = ptx::mul_rn_f16x2(pair, factor);
  }
};

/// E8M0 scales; `Top`: the largest becomes 2^Top.
template <int Top>
struct E8m0Elements {
  static constexpr int block = 32;
  static constexpr bool relative = true;
  template <class Raw>
  __device__ static int reference(const Raw&, std::uint32_t scale) {
    return scale == 255 ? 0 : static_cast<int>(scale);
  }
  __device__ static int exponent(int reference) { return reference - 127 - Top; }
  __device__ static void scale_halves(std::uint32_t scale, int reference, std::uint32_t (&w)[4]) {
    const std::uint32_t factor =
        scale == 255 ? 0x7E007E00u : power_pair_f16(static_cast<int>(scale) - reference + Top);
#pragma unroll
    for (std::uint32_t& pair : w) pair = ptx::mul_rn_f16x2(pair, factor);
  }
};

struct ElementsMxfp4 : E8m0Elements<13> {  // 6 * 2^13 fits
  static constexpr int bits = 4;
  using Raw = std::uint32_t;
  __device__ static Raw load(const std::uint8_t* from) { return ptx::ld_global_nc_b32(from); }
  __device__ static void halves(const Raw& raw, std::uint32_t scale, int reference,
                                std::uint32_t (&w)[4]) {
    e2m1_pairs_f16(raw, w);
    scale_halves(scale, reference, w);
  }
};

struct ElementsMxfp8E4m3 : E8m0Elements<6> {  // 448 * 2^6 fits
  static constexpr int bits = 8;
  using Raw = uint2;
  __device__ static Raw load(const std::uint8_t* from) { return ptx::ld_global_nc_v2(from); }
  __device__ static void halves(const Raw& raw, std::uint32_t scale, int reference,
                                std::uint32_t (&w)[4]) {
    ElementsE4m3::halves(raw, 0, 0, w);
    scale_halves(scale, reference, w);
  }
};

struct ElementsMxfp8E5m2 : E8m0Elements<0> {  // 57344 fits
  static constexpr int bits = 8;
  using Raw = uint2;
  __device__ static Raw load(const std::uint8_t* from) { return ptx::ld_global_nc_v2(from); }
  __device__ static void halves(const Raw& raw, std::uint32_t scale, int reference,
                                std::uint32_t (&w)[4]) {
    w[0] = ptx::cvt_rn_f16x2_e5m2x2(raw.x & 0xFFFFu), w[1] = ptx::cvt_rn_f16x2_e5m2x2(raw.x >> 16);
    w[2] = ptx::cvt_rn_f16x2_e5m2x2(raw.y & 0xFFFFu), w[3] = ptx::cvt_rn_f16x2_e5m2x2(raw.y >> 16);
    scale_halves(scale, reference, w);
  }
};

/// Elements of a larger range than FP16's: a row or tile is multiplied by a power of two, so that
/// its largest magnitude is in [2^14, 2^15).
struct ScaledElements {
  static constexpr int block = 0;
  static constexpr bool relative = true;
  __device__ static int exponent(int reference) { return reference - 141; }
  __device__ static int exponent_of(std::uint32_t bits) {
    const int exponent = static_cast<int>(bits >> 23 & 0xFF);
    return exponent == 255 ? 0 : exponent;
  }
  __device__ static std::uint32_t pair(float low, float high, int reference) {
    const int n = 141 - reference;  // -113 to 127
    const float power = __uint_as_float(static_cast<std::uint32_t>(n + 127) << 23);
    return ptx::cvt_rn_f16x2_f32(__fmul_rn(low, power), __fmul_rn(high, power));
  }
};

struct ElementsBf16 : ScaledElements {
  static constexpr int bits = 16;
  using Raw = uint4;
  __device__ static Raw load(const std::uint8_t* from) {
    return ptx::ld_global_nc_no_allocate_v4(from);
  }
  __device__ static int reference(const Raw& raw, std::uint32_t) {
    int largest = 0;
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (const std::uint32_t word : words)
      largest = max(largest, max(exponent_of(word), exponent_of(word << 16)));
    return largest;
  }
  __device__ static void halves(const Raw& raw, std::uint32_t, int reference,
                                std::uint32_t (&w)[4]) {
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      w[i] =
          pair(__uint_as_float(words[i] << 16), __uint_as_float(words[i] & 0xFFFF0000u), reference);
  }
};

struct ElementsF32 : ScaledElements {
  static constexpr int bits = 32;
  struct Raw {
    uint4 low, high;
  };
  __device__ static Raw load(const std::uint8_t* from) {
    return {ptx::ld_global_nc_no_allocate_v4(from), ptx::ld_global_nc_no_allocate_v4(from + 16)};
  }
  __device__ static int reference(const Raw& raw, std::uint32_t) {
    int largest = 0;
    const std::uint32_t words[8] = {raw.low.x,  raw.low.y,  raw.low.z,  raw.low.w,
                                    raw.high.x, raw.high.y, raw.high.z, raw.high.w};
#pragma unroll
    for (const std::uint32_t word : words) largest = max(largest, exponent_of(word));
    return largest;
  }
  __device__ static void halves(const Raw& raw, std::uint32_t, int reference,
                                std::uint32_t (&w)[4]) {
    w[0] = pair(__uint_as_float(raw.low.x), __uint_as_float(raw.low.y), reference);
    w[1] = pair(__uint_as_float(raw.low.z), __uint_as_float(raw.low.w), reference);
    w[2] = pair(__uint_as_float(raw.high.x), __uint_as_float(raw.high.y), reference);
    w[3] = pair(__uint_as_float(raw.high.z), __uint_as_float(raw.high.w), reference);
  }
};

}  // namespace microscale::cuda::attention::prefill
