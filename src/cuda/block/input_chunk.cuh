// Eight neighbouring elements of a dense row in a thread's registers, for each dense type: load,
// largest magnitude, one element as FP32.
#pragma once

#include <cstdint>

#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/scalar.cuh"

namespace microscale::cuda {

// Two 16-bit elements a word, four words a chunk. Packed16 supplies what differs between BF16 and
// FP16.
template <class Packed16>
struct Input16 {
  static constexpr int words = 4;
  static constexpr int element_bytes = 2;

  __device__ static void load(const void* address, std::uint32_t (&w)[words]) {
    const uint4 v = ptx::ld_global_nc_no_allocate_v4(address);
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
  }

  /// Largest magnitudes of the even elements (low half) and the odd ones, under meaningless signs;
  /// NaN if there is one.
  __device__ static std::uint32_t amax_pair(const std::uint32_t (&w)[words]) {
    return Packed16::max_abs(Packed16::max_abs(w[0], w[1]), Packed16::max_abs(w[2], w[3]));
  }

  /// Bits of the largest magnitude as FP32; above 0x7F800000 if there is a NaN.
  __device__ static std::uint32_t amax_bits(const std::uint32_t (&w)[words]) {
    const std::uint32_t both = amax_pair(w) & 0x7FFF7FFFu;
    const std::uint32_t even = both & 0xFFFFu, odd = both >> 16;
    return __float_as_uint(Packed16::widen(even > odd ? even : odd));
  }

  __device__ static float value(const std::uint32_t (&w)[words], int i) {
    return i & 1 ? Packed16::widen_high(w[i / 2]) : Packed16::widen(w[i / 2] & 0xFFFFu);
  }

  /// Element signs where E2M1 codes have theirs: element i's in bit 4 * i + 3.
  __device__ static std::uint32_t e2m1_signs(const std::uint32_t (&w)[words]) {
    const std::uint32_t low = ptx::prmt_b32(w[0], w[1], 0xFBD9),
                        high = ptx::prmt_b32(w[2], w[3], 0xFBD9);  // 0x00 or 0xFF: 0 2 1 3, 4 6 5 7
    const std::uint32_t even = __byte_perm(low, high, 0x5410), odd = __byte_perm(low, high, 0x7632);
    return (even & 0x08080808u) | (odd & 0x80808080u);
  }
};

struct PackedBf16 {
  __device__ static std::uint32_t max_abs(std::uint32_t a, std::uint32_t b) {
    return ptx::max_nan_xorsign_abs_bf16x2(a, b);
  }
  __device__ static std::uint32_t abs(std::uint32_t a) { return ptx::abs_bf16x2(a); }
  __device__ static std::uint32_t max_nan(std::uint32_t a, std::uint32_t b) {
    return ptx::max_nan_bf16x2(a, b);
  }
  __device__ static std::uint32_t min(std::uint32_t a, std::uint32_t b) {
    return ptx::min_bf16x2(a, b);
  }
  __device__ static std::uint32_t fma(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return ptx::fma_rn_bf16x2(a, b, c);
  }
  __device__ static float widen(std::uint32_t bits) { return __uint_as_float(bits << 16); }
  __device__ static float widen_high(std::uint32_t pair) {
    return __uint_as_float(pair & 0xFFFF0000u);
  }
};

struct PackedF16 {
  __device__ static std::uint32_t max_abs(std::uint32_t a, std::uint32_t b) {
    return ptx::max_nan_xorsign_abs_f16x2(a, b);
  }
  __device__ static std::uint32_t abs(std::uint32_t a) { return ptx::abs_f16x2(a); }
  __device__ static std::uint32_t max_nan(std::uint32_t a, std::uint32_t b) {
    return ptx::max_nan_f16x2(a, b);
  }
  __device__ static std::uint32_t min(std::uint32_t a, std::uint32_t b) {
    return ptx::min_f16x2(a, b);
  }
  __device__ static std::uint32_t fma(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return ptx::fma_rn_f16x2(a, b, c);
  }
  __device__ static float widen(std::uint32_t bits) { return ptx::cvt_f32_f16(bits); }
  __device__ static float widen_high(std::uint32_t pair) { return ptx::cvt_f32_f16(pair >> 16); }
};

struct InputBf16 : Input16<PackedBf16> {
  static constexpr bool is_bf16 = true;
  using Packed = PackedBf16;
};
struct InputF16 : Input16<PackedF16> {
  static constexpr bool is_bf16 = false;
  using Packed = PackedF16;
};

struct InputF32 {
  static constexpr int words = 8;
  static constexpr int element_bytes = 4;

  __device__ static void load(const void* address, std::uint32_t (&w)[words]) {
    const uint4 a = ptx::ld_global_nc_no_allocate_v4(address);
    const uint4 b = ptx::ld_global_nc_no_allocate_v4(static_cast<const char*>(address) + 16);
    w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w;
    w[4] = b.x, w[5] = b.y, w[6] = b.z, w[7] = b.w;
  }

  __device__ static std::uint32_t amax_bits(const std::uint32_t (&w)[words]) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < words; ++i) largest = ptx::max_nan_abs_f32(largest, __uint_as_float(w[i]));
    return __float_as_uint(largest);
  }

  __device__ static float value(const std::uint32_t (&w)[words], int i) {
    return __uint_as_float(w[i]);
  }

  __device__ static std::uint32_t e2m1_signs(const std::uint32_t (&w)[words]) {
    std::uint32_t signs = 0;
#pragma unroll
    for (int i = words - 1; i >= 0; --i) signs = __funnelshift_l(w[i], signs, 4);
    return signs & 0x88888888u;
  }
};

}  // namespace microscale::cuda
