// The second product of attention by block-scaled matrix instructions: probabilities in a warp's
// registers, V in shared memory.
//
// TokenValues: blocks of 16 along the tokens, made so beforehand (ValueTile); the instruction takes
// codes and scales as they are. F16Values: blocks along d, as a cache or a tensor has them; a
// thread block makes FP16 of a tile, exactly, before its warps multiply.
#pragma once

#include <cstdint>

#include "cuda/ptx/mma.cuh"
#include "cuda/attention/block_scaled/weights.cuh"
#include "cuda/attention/codes.cuh"
#include "cuda/attention/block_scaled/keys.cuh"

namespace microscale::cuda::attention::block_scaled {

template <int D, int Threads>
struct TokenValues {
  /// A tile of 64 keys, to shared address `to`.
  __device__ static void copy(std::uint32_t to, const std::uint8_t* from, int thread) {
    constexpr int pieces = ValueTile::bytes(D) / 16;
#pragma unroll
    for (int i = 0; i < pieces; i += Threads)
      if (pieces - i >= Threads || thread < pieces - i)
        ptx::cp_async_cg_shared_global_16(to + 16 * (thread + i), from + 16 * (thread + i));
  }

  /// o += P V of the tile at `values`. `scales`: of each term (block_scales).
  template <int Terms>
  __device__ static void multiply(float (&o)[D / 8][4], const Codes<2> (&p)[Terms],
                                  const std::uint32_t (&scales)[Terms], std::uint32_t values,
                                  int lane) {
    const int matrix = lane / 8, row = lane % 8;
    const std::uint32_t from =
        values + static_cast<std::uint32_t>(ValueTile::code(8 * (matrix / 2) + row, matrix % 2));
    std::uint32_t of_d[D / 32];
    shared_words<D / 32>(
        values + static_cast<std::uint32_t>(ValueTile::scale(D, 8 * (lane % 4) + lane / 4)), of_d);
    for_each_index<D / 16>([&](auto pair) {
      constexpr int j = 2 * pair.value;
      std::uint32_t b[4];
      ptx::ldmatrix_m8n8_x4_b16(b, from + 256 * j);
#pragma unroll
      for (int term = 0; term < Terms; ++term) {
        const std::uint32_t a[4] = {p[term].codes[0][0], p[term].codes[0][1], p[term].codes[1][0],
                                    p[term].codes[1][1]};
        ptx::mma_m16n8k64_mxf4nvf4_4x_ue4m3<0, j % 4>(o[j], a, b[0], b[1], scales[term],
                                                      of_d[j / 4]);
        ptx::mma_m16n8k64_mxf4nvf4_4x_ue4m3<0, j % 4 + 1>(o[j + 1], a, b[2], b[3], scales[term],
                                                          of_d[j / 4]);
      }
    });
  }
};

/// NVFP4: two E4M3 scales of a row, as FP16.
struct Nvfp4Values {
  static constexpr int block = 16;
  __device__ static void to_f16(std::uint32_t (&to)[4], std::uint32_t codes, std::uint32_t scales,
                                int number) {
    ptx::cvt_rn_f16x2_e2m1x2_x4(to, codes);
#pragma unroll
    for (std::uint32_t& pair : to)
      pair = number % 2 ? ptx::mul_rn_f16x2_by_high(pair, scales)
                        : ptx::mul_rn_f16x2_by_low(pair, scales);
  }
};

template <int D, int Threads>
struct F16Values {
  static constexpr int row_bytes = D / 2, chunks = row_bytes / 16;
  /// A thread converts half or a quarter of a key: so many chunks of 32 codes, and their
  /// scales.
  static constexpr int own_chunks = chunks * tile_keys / Threads, own_scales = 2 * own_chunks;
  static constexpr int scale_words = (own_scales + 3) / 4;

  /// Where codes of a key lie: eight keys in a row in different banks.
  __device__ static std::uint32_t code(std::uint32_t key, std::uint32_t chunk) {
    return key * row_bytes + ((chunk ^ key / (8 / chunks) % chunks) << 4);
  }
  /// Where FP16 elements 8 chunk to 8 chunk + 7 of a key lie: both eight keys in a row and keys 8 a
  /// + 2 j + i, a to 3, i to 1, in different banks.
  __device__ static std::uint32_t f16(std::uint32_t key, std::uint32_t chunk) {
    const auto row = static_cast<std::uint32_t>(F16Rows::at(D, static_cast<int>(key)));
    if constexpr (!F16Rows::padded(D)) chunk ^= key % 8 ^ key / 8 % 4 * 2;
    return row + (chunk << 4);
  }

  template <class PlaceOf>
  __device__ static void copy(std::uint32_t to, int thread, PlaceOf&& place_of) {
#pragma unroll
    for (int i = 0; i < tile_keys * chunks / Threads; ++i) {
      const int row = thread / chunks + i * (Threads / chunks), chunk = thread % chunks;
      ptx::cp_async_cg_shared_global_16(
          to + code(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(chunk)),
          place_of(row) + 16 * chunk);
    }
  }

  __device__ static int own_key(int thread) { return thread % tile_keys; }
  /// Scales of the part of key own_key that this thread converts; `from`: the key's.
  __device__ static void load_scales_of(const std::uint8_t* from, int thread,
                                        std::uint32_t (&words)[scale_words]) {
    load_scales<own_scales>(from + thread / tile_keys * own_scales, words);
  }
  __device__ static void to_f16(std::uint32_t codes, std::uint32_t to, int thread,
                                const std::uint32_t (&words)[scale_words]) {
    const auto key = static_cast<std::uint32_t>(own_key(thread));
    const auto part = static_cast<std::uint32_t>(thread / tile_keys);
#pragma unroll
    for (std::uint32_t c = 0; c < own_chunks; ++c) {
      const uint4 four = ptx::ld_shared_v4(codes + code(key, part * own_chunks + c));
      const std::uint32_t scales = ptx::cvt_rn_f16x2_e4m3x2(words[c / 2] >> (16 * (c % 2)));
      const std::uint32_t w[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        std::uint32_t pairs[4];
        Nvfp4Values::to_f16(pairs, w[i], scales, static_cast<int>(i / 2));
        ptx::st_shared_v4(to + f16(key, 4 * (part * own_chunks + c) + i),
                          make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
      }
    }
  }

  /// o += P V of 16 keys, `Step` of a tile's four. p[m]: rows as the first operand.
  template <int Step, int Rows>
  __device__ static void multiply(float (&o)[Rows][D / 8][4], const std::uint32_t (&p)[Rows][4],
                                  std::uint32_t values, int lane) {
    const auto matrix = static_cast<std::uint32_t>(lane / 8),
               row = static_cast<std::uint32_t>(lane % 8);
    const std::uint32_t own =
        f16(8 * (row / 2) + 2 * (matrix % 2) + row % 2, matrix / 2);  // of the first 16 keys
    constexpr std::uint32_t in = 4 * (Step % 2);  // keys 8 a + `in` and behind it
    constexpr auto step = static_cast<std::uint32_t>(F16Rows::at(D, Step / 2 * 32 + in));
#pragma unroll
    for (std::uint32_t j = 0; j < D / 8; j += 2) {
      std::uint32_t b[4];
      if constexpr (F16Rows::padded(D))
        ptx::ldmatrix_m8n8_x4_trans_b16(b, values + own + step + 16 * j);
      else
        ptx::ldmatrix_m8n8_x4_trans_b16(b, values + (own ^ (j % 8 ^ in) << 4) + j / 8 * 128 + step);
#pragma unroll
      for (int m = 0; m < Rows; ++m) {
        ptx::mma_m16n8k16_f32_f16(o[m][j], p[m], b[0], b[1]);
        ptx::mma_m16n8k16_f32_f16(o[m][j + 1], p[m], b[2], b[3]);
      }
    }
  }
};

}  // namespace microscale::cuda::attention::block_scaled
