// What every MXFP8 level shares: 16 bytes of BF16 (a chunk, a quarter of a block) to eight E4M3
// codes, and the place of a scale byte. Values are finite.
//
// A lane always holds the chunk `lane % 4` of a block, and the four lanes of a block are
// neighbours.
#pragma once

#include <cstdint>

#include "../level.hpp"
#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/memory.cuh"
#include "layouts/tiled_128x4.hpp"

namespace levels {

inline constexpr unsigned whole_warp = 0xFFFFFFFFu;
inline constexpr int block_elements = 32, chunk_elements = 8;
inline constexpr int tile_blocks = 8;                           // of a row, in one tile
inline constexpr int tile_cols = tile_blocks * block_elements;  // 256: 512 bytes of BF16

/// Bits of the block's largest magnitude as FP32, from its four lanes' chunks. Magnitudes of floats
/// order like integers, so the maximum is taken of both halves of a word at once.
__device__ inline std::uint32_t block_amax(uint4 v) {
  constexpr std::uint32_t magnitudes = 0x7FFF7FFFu;
  std::uint32_t amax = __vmaxu2(__vmaxu2(v.x & magnitudes, v.y & magnitudes),
                                __vmaxu2(v.z & magnitudes, v.w & magnitudes));
  amax = __vmaxu2(amax, __shfl_xor_sync(whole_warp, amax, 1));
  amax = __vmaxu2(amax, __shfl_xor_sync(whole_warp, amax, 2));
  return max(amax << 16, amax & 0xFFFF0000u);
}

/// ceil(log2(amax / 448)) biased by 127, so that nothing saturates: 448 = 1.75 * 2^8, so the
/// addition carries into the exponent exactly where the fraction is above 0.75. No epsilon is
/// added: one would lift some exact powers of two to the next byte.
__device__ inline std::uint32_t ceil_scale(std::uint32_t amax_bits) {
  return static_cast<std::uint32_t>(max(static_cast<int>((amax_bits + 0x1FFFFFu) >> 23) - 8, 0));
}

/// The chunk times 1 / scale, as eight codes. The conversion saturates by itself.
__device__ inline uint2 encode_chunk(uint4 v, std::uint32_t scale) {
  const float multiplier = __uint_as_float((254u - scale) << 23);
  const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
  std::uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    pairs[i] = microscale::ptx::cvt_rn_satfinite_e4m3x2_f32(
        __uint_as_float(words[i] << 16) * multiplier,
        __uint_as_float(words[i] & 0xFFFF0000u) * multiplier);
  return make_uint2(pairs[0] | pairs[1] << 16, pairs[2] | pairs[3] << 16);
}

/// Where the scale byte of a block stands. Blocks 4 n ... 4 n + 3 of a row are neighbours in either
/// layout.
template <bool Tiled>
__device__ std::uint8_t* scale_place(const Args& args, std::int64_t row, std::int64_t block) {
  const std::int64_t blocks = args.cols / block_elements;
  return args.scales +
         (Tiled ? microscale::tiled_128x4::offset(row, block, blocks) : row * blocks + block);
}

__device__ inline void store_codes(const Args& args, std::int64_t row, std::int64_t col,
                                   uint2 codes) {
  microscale::ptx::st_global_v2(args.codes + row * args.cols + col, codes.x, codes.y);
}

/// One scale byte by itself, by the first of the block's lanes.
__device__ inline void store_scale_byte(const Args& args, std::int64_t row, std::int64_t block,
                                        std::uint32_t scale) {
  if (threadIdx.x % 4 == 0) *scale_place<true>(args, row, block) = static_cast<std::uint8_t>(scale);
}

}  // namespace levels
