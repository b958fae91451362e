// Packed weights (layouts/fragment_tiles.hpp) in shared memory to A fragments of 16-bit wgmma, the
// block scale multiplied in. What a lane holds is exact:
//
//   MXFP4, E2M1 x 2^s       BF16: 2 significant bits. The smallest, 2^-128, is a subnormal of BF16;
//                           a product of 2^128 or more is infinite, as it is in FP32
//   NVFP4, E2M1 x UE4M3     at most 6 significant bits, 2^-10 to 2688: BF16 or FP16 times 2^-7,
//                           since the scale's factor must fit. 2^7 goes to the sums, whose bits
//                           below 2^-142 are lost in BF16
//   MXFP8, E4M3/E5M2 x 2^s  BF16: at most 4 significant bits. Below 2^-126 subnormals of BF16:
//                           products are rounded to multiples of 2^-133, nearest even; infinite
//                           from 2^128 on
//
// NaN: scale byte 255 (E8M0) or 127 (UE4M3, before packing), and FP8's own codes. Byte 0 of E8M0 is
// 2^-127. Packed multiplications do not flush subnormals.
//
// A format has: tile_bytes of 16 rows x 64; `Tile`, what a lane keeps of a tile; read() of where in
// shared memory its codes and scales begin, codes_of and scales_of a lane behind the tile's
// beginning; fragment() of one step of 16 elements, and if there is a shorter way for all but
// special tiles, quick_fragment() and is_special(); sum_factor, what the sums are multiplied by.
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/scalar.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda::in_registers {

/// Tiles of layouts/fragment_tiles.hpp.
struct FromPacked {
  static constexpr bool unpacked = false;
  __device__ static std::uint32_t codes_of(std::uint32_t lane) { return 16 * lane; }
};

struct AsBf16 {
  __device__ static void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1) {
    ptx::mma_m16n8k16_f32_bf16(d, a, b0, b1);
  }
  template <int Count>
  __device__ static void multiply(float (&d)[Count], const std::uint32_t (&a)[4], std::uint64_t b,
                                  bool accumulate) {
    if constexpr (Count == 8)
      ptx::wgmma_m64n16k16_f32_bf16_bf16(d, a, b, accumulate);
    else if constexpr (Count == 16)
      ptx::wgmma_m64n32k16_f32_bf16_bf16(d, a, b, accumulate);
    else if constexpr (Count == 32)
      ptx::wgmma_m64n64k16_f32_bf16_bf16(d, a, b, accumulate);
    else if constexpr (Count == 64)
      ptx::wgmma_m64n128k16_f32_bf16_bf16(d, a, b, accumulate);
    else if constexpr (Count == 96)
      ptx::wgmma_m64n192k16_f32_bf16_bf16(d, a, b, accumulate);
    else
      ptx::wgmma_m64n256k16_f32_bf16_bf16(d, a, b, accumulate);
  }
};
struct AsF16 {
  __device__ static void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1) {
    ptx::mma_m16n8k16_f32_f16(d, a, b0, b1);
  }
  template <int Count>
  __device__ static void multiply(float (&d)[Count], const std::uint32_t (&a)[4], std::uint64_t b,
                                  bool accumulate) {
    if constexpr (Count == 8)
      ptx::wgmma_m64n16k16_f32_f16_f16(d, a, b, accumulate);
    else if constexpr (Count == 16)
      ptx::wgmma_m64n32k16_f32_f16_f16(d, a, b, accumulate);
    else if constexpr (Count == 32)
      ptx::wgmma_m64n64k16_f32_f16_f16(d, a, b, accumulate);
    else if constexpr (Count == 64)
      ptx::wgmma_m64n128k16_f32_f16_f16(d, a, b, accumulate);
    else if constexpr (Count == 96)
      ptx::wgmma_m64n192k16_f32_f16_f16(d, a, b, accumulate);
    else
      ptx::wgmma_m64n256k16_f32_f16_f16(d, a, b, accumulate);
  }
};

/// Word `i` of a vector, i known when compiled.
__device__ inline std::uint32_t word_of(uint4 v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/// Byte `i` of four as an E8M0 scale, twice, in BF16. In its exponent's place it is the power of
/// two, but for byte 0, which becomes the subnormal 2^-127, and byte 255, infinity, which times 0
/// is NaN.
__device__ inline std::uint32_t e8m0_pair_bf16(std::uint32_t bytes, int i) {
  const std::uint32_t power = ptx::prmt_b32(bytes, 0, 0x4040u + 0x101u * i) << 7;
  return ptx::fma_rn_bf16x2(power, 0, ptx::max_nan_bf16x2(power, 0x00400040u));
}

__device__ inline void scale_fragment(std::uint32_t (&a)[4], std::uint32_t row,
                                      std::uint32_t row8) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = ptx::mul_rn_bf16x2(a[i], i % 2 == 0 ? row : row8);
}

struct Mxfp4Weights : FromPacked, AsBf16 {
  static constexpr int tile_bytes = fragment_tiles::tile_bytes(4, 32);
  static constexpr float sum_factor = 1.0f;
  struct Tile {
    uint4 codes;
    std::uint32_t bytes;      // scales: block 0 of rows g and g + 8, then block 1
    std::uint32_t scales[2];  // of a block, both rows: times 2^126, if no scale is above 1
  };
  __device__ static std::uint32_t scales_of(std::uint32_t lane) { return 512 + lane / 4 * 4; }
  __device__ static Tile read(std::uint32_t codes, std::uint32_t scales) {
    Tile t;
    t.codes = ptx::ld_shared_v4(codes);
    t.bytes = ptx::ld_shared_b32(scales);
    t.scales[0] = ptx::prmt_b32(t.bytes, 0, 0x4140u) * 0x80u + 0x3F003F00u;
    t.scales[1] = ptx::prmt_b32(t.bytes, 0, 0x4342u) * 0x80u + 0x3F003F00u;
    return t;
  }
  /// Whether quick_fragment() is not for this one: a scale of 2 or more, or NaN. One answer for all
  /// lanes of a warp.
  __device__ static bool is_special(const Tile& t) {
    return __any_sync(0xFFFFFFFFu, (t.bytes & 0x80808080u) != 0);
  }
  __device__ static void quick_fragment(const Tile& t, int step, std::uint32_t (&a)[4]) {
    e2m1_bits_bf16(word_of(t.codes, step), a);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[i] = i % 2 == 0 ? ptx::mul_rn_bf16x2_by_low(a[i], t.scales[step / 2])
                        : ptx::mul_rn_bf16x2_by_high(a[i], t.scales[step / 2]);
  }
  __device__ static void fragment(const Tile& t, int step, std::uint32_t (&a)[4]) {
    e2m1_bits_bf16(word_of(t.codes, step), a);
    scale_fragment(a, 0x7E807E80u, 0x7E807E80u);  // 2^126
    scale_fragment(a, e8m0_pair_bf16(t.bytes, step / 2 * 2),
                   e8m0_pair_bf16(t.bytes, step / 2 * 2 + 1));
  }
};

struct Nvfp4Weights : FromPacked, AsBf16 {
  static constexpr int tile_bytes = fragment_tiles::tile_bytes(4, 16);
  static constexpr float sum_factor = 128.0f;
  struct Tile {
    uint4 codes;
    uint2 scales;  // of a step 16 bits: rows g and g + 8
  };
  __device__ static std::uint32_t scales_of(std::uint32_t lane) { return 512 + lane / 4 * 8; }
  __device__ static Tile read(std::uint32_t codes, std::uint32_t scales) {
    return {ptx::ld_shared_v4(codes), ptx::ld_shared_v2(scales)};
  }
  __device__ static void fragment(const Tile& t, int step, std::uint32_t (&a)[4]) {
    const std::uint32_t scales =
        placed_scale_pair_bf16(step < 2 ? t.scales.x : t.scales.y, step % 2);
    e2m1_bits_bf16(word_of(t.codes, step), a);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[i] = i % 2 == 0 ? ptx::mul_rn_bf16x2_by_low(a[i], scales)
                        : ptx::mul_rn_bf16x2_by_high(a[i], scales);
  }
};

struct Nvfp4F16Weights : FromPacked, AsF16 {
  static constexpr int tile_bytes = Nvfp4Weights::tile_bytes;
  static constexpr float sum_factor = 128.0f;
  using Tile = Nvfp4Weights::Tile;
  __device__ static std::uint32_t scales_of(std::uint32_t lane) {
    return Nvfp4Weights::scales_of(lane);
  }
  __device__ static Tile read(std::uint32_t codes, std::uint32_t scales) {
    return Nvfp4Weights::read(codes, scales);
  }
  /// Codes are upper bytes of FP16, 2^-14 times their value.
  __device__ static void fragment(const Tile& t, int step, std::uint32_t (&a)[4]) {
    const std::uint32_t scales =
        placed_scale_pair_f16(step < 2 ? t.scales.x : t.scales.y, step % 2);
    e2m1_of_packed(word_of(t.codes, step), a);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[i] = i % 2 == 0 ? ptx::mul_rn_f16x2_by_low(a[i], scales)
                        : ptx::mul_rn_f16x2_by_high(a[i], scales);
  }
};

template <bool E5M2>
struct Mxfp8Weights : FromPacked, AsBf16 {
  static constexpr int tile_bytes = fragment_tiles::tile_bytes(8, 32);
  static constexpr float sum_factor = 1.0f;
  struct Tile {
    uint4 codes[2];           // two steps each
    std::uint32_t scales[4];  // as Mxfp4Weights's
  };
  __device__ static std::uint32_t scales_of(std::uint32_t lane) { return 1024 + lane / 4 * 4; }
  __device__ static Tile read(std::uint32_t codes, std::uint32_t scales) {
    Tile t;
    t.codes[0] = ptx::ld_shared_v4(codes);
    t.codes[1] = ptx::ld_shared_v4(codes + 512);
    const std::uint32_t bytes = ptx::ld_shared_b32(scales);
#pragma unroll
    for (int i = 0; i < 4; ++i) t.scales[i] = e8m0_pair_bf16(bytes, i);
    return t;
  }
  __device__ static void fragment(const Tile& t, int step, std::uint32_t (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t word = word_of(t.codes[step / 2], step % 2 * 2 + i / 2);
      const std::uint32_t codes = i % 2 == 0 ? word & 0xFFFFu : word >> 16;
      const std::uint32_t halves =
          E5M2 ? ptx::cvt_rn_f16x2_e5m2x2(codes) : ptx::cvt_rn_f16x2_e4m3x2(codes);
      a[i] = ptx::cvt_rn_bf16x2_f32(ptx::cvt_f32_f16(halves & 0xFFFFu),
                                    ptx::cvt_f32_f16(halves >> 16));
    }
    scale_fragment(a, t.scales[step / 2 * 2], t.scales[step / 2 * 2 + 1]);
  }
};

}  // namespace microscale::cuda::in_registers
