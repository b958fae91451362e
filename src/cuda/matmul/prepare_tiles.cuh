// Makes a of a matrix product ready for the kernels of many rows: 16-bit elements with their block
// scales inside, in the tiles of layouts/token_tiles.hpp. Dense elements are copied as they are.
// What block-scaled ones become is exact:
//
//   NVFP4   E2M1 x UE4M3, without the global scale: at most 6 significant bits, 2^-10 to 2688
//   MXFP4   E2M1 x 2^s in BF16: 2 significant bits; from 2^128 on infinite, as in FP32
//   MXFP8   E4M3 or E5M2 x 2^s in BF16: at most 4; below 2^-126 multiples of 2^-133, nearest even;
//           infinite from 2^128 on
//
// A thread block takes groups of eight rows, warp w row w, and prepare_pieces times 256 elements of
// k: so many pieces of eight elements a lane, read at once.
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"
#include "cuda/block/encode.cuh"
#include "cuda/block/grid_order.cuh"
#include "cuda/device/kernel_types.hpp"
#include "cuda/matmul/in_registers/weights.cuh"
#include "cuda/matmul/token_groups.cuh"
#include "cuda/ptx/memory.cuh"
#include "layouts/tiled_128x4.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda {

/// What a group of rows is made of: eight neighbouring elements, as they are read and with their
/// block's scale, become 16 bytes. Zeros become zeros.
struct DenseTokens {
  static constexpr int block = 8;
  static constexpr std::uint32_t bits = 16;
  using Codes = uint4;
  /// `left` elements at most.
  __device__ static Codes load(const std::uint8_t* from, std::uint32_t left) {
    if (left >= 8 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0)
      return ptx::ld_global_nc_no_allocate_v4(from);
    std::uint32_t w[4] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (static_cast<std::uint32_t>(i) < left)
        w[i / 2] |= std::uint32_t{reinterpret_cast<const std::uint16_t*>(from)[i]}
                    << (16 * (i % 2));
    return make_uint4(w[0], w[1], w[2], w[3]);
  }
  template <bool F16>
  __device__ static uint4 elements(Codes codes, std::uint32_t) {
    return codes;
  }
};

struct E2m1Tokens {
  static constexpr std::uint32_t bits = 4;
  using Codes = std::uint32_t;
  __device__ static Codes load(const std::uint8_t* from, std::uint32_t) {
    return ptx::ld_global_nc_b32(from);
  }
};

struct Nvfp4Tokens : E2m1Tokens {
  static constexpr int block = 16;
  template <bool F16>
  __device__ static uint4 elements(Codes codes, std::uint32_t scale) {
    const std::uint32_t factor = ptx::cvt_rn_f16x2_e4m3x2(scale * 0x101u & 0x7F7Fu);
    std::uint32_t w[4];
    if constexpr (F16) {
      e2m1_pairs_f16(codes, w);
#pragma unroll
      for (std::uint32_t& pair : w) pair = ptx::mul_rn_f16x2(pair, factor);
    } else {
      const float value = ptx::cvt_f32_f16(factor & 0xFFFFu);
      const std::uint32_t wide = ptx::cvt_rn_bf16x2_f32(value, value);
      e2m1_pairs_bf16(codes, w);
#pragma unroll
      for (std::uint32_t& pair : w) pair = ptx::mul_rn_bf16x2(pair, wide);
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
  }
};

// MX elements become BF16 for every kernel: multiplies_f16 (cuda/matmul/in_registers/launch.cpp).
struct Mxfp4Tokens : E2m1Tokens {
  static constexpr int block = 32;
  template <bool>
  __device__ static uint4 elements(Codes codes, std::uint32_t scale) {
    const std::uint32_t factor = in_registers::e8m0_pair_bf16(scale, 0);
    std::uint32_t w[4];
    e2m1_pairs_bf16(codes, w);
#pragma unroll
    for (std::uint32_t& pair : w) pair = ptx::mul_rn_bf16x2(pair, factor);
    return make_uint4(w[0], w[1], w[2], w[3]);
  }
};

/// One rounding, that of the product: what FP32 holds in between is exact.
template <class Codec>
struct Mxfp8Tokens {
  static constexpr int block = 32;
  static constexpr std::uint32_t bits = 8;
  using Codes = uint2;
  __device__ static Codes load(const std::uint8_t* from, std::uint32_t) {
    return ptx::ld_global_nc_v2(from);
  }
  template <bool>
  __device__ static uint4 elements(Codes codes, std::uint32_t scale) {
    const std::uint32_t factor = in_registers::e8m0_pair_bf16(scale, 0);
    std::uint32_t w[4] = {codes.x & 0xFFFFu, codes.x >> 16, codes.y & 0xFFFFu, codes.y >> 16};
#pragma unroll
    for (std::uint32_t& pair : w) {
      const std::uint32_t halves = cvt_f16x2<Codec>(pair);
      pair = ptx::mul_rn_bf16x2(ptx::cvt_rn_bf16x2_f32(ptx::cvt_f32_f16(halves & 0xFFFFu),
                                                       ptx::cvt_f32_f16(halves >> 16)),
                                factor);
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
  }
};

/// Elements i and i + 4 of eight, the half `piece` % 2 of block `piece` / 2 of the chunk, to where
/// cuda/matmul/in_registers/unpacked.cuh has them.
__device__ inline void put_by_blocks(char* group, std::uint32_t row, std::uint32_t piece,
                                     uint4 eight) {
  const std::uint32_t first[2] = {eight.x, eight.y}, second[2] = {eight.z, eight.w};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    ptx::st_global_b32(group + token_tiles::piece_offset(row, 2 * i + piece % 2) + piece / 2 * 4,
                       ptx::prmt_b32(first[i / 2], second[i / 2], i % 2 == 0 ? 0x5410 : 0x7632));
}

/// This lane's pieces of one group, from `column` on.
template <class Tokens, bool F16>
__device__ void prepare_group(const PrepareTilesArgs& args, const GroupPlace& at,
                              std::uint32_t column) {
  constexpr std::uint32_t block = Tokens::block, apart = 256;  // elements from piece to piece
  const std::uint32_t in_group = threadIdx.x / 32, row = at.row + in_group;
  const auto k = static_cast<std::uint32_t>(args.k);
  const std::uint32_t end = row < at.rows ? k : 0;
  typename Tokens::Codes codes[prepare_pieces] = {};
  std::uint32_t scales[prepare_pieces] = {};
  if (column < end) {
    const std::uint32_t own = at.first_row + row;
    const std::uint8_t* from = static_cast<const std::uint8_t*>(args.a) + own * args.a_stride +
                               std::uint64_t{column} * Tokens::bits / 8;
    const std::uint8_t* scale = args.scales;
    if constexpr (block > 8)
      scale += args.tiled
                   ? tiled_128x4::offset(at.scale_rows * 128 + row, column / block, k / block)
                   : std::uint64_t{own} * (k / block) + column / block;
    const std::uint32_t next_scale = apart / block * (args.tiled ? 128 : 1);
#pragma unroll
    for (int j = 0; j < prepare_pieces; ++j) {
      if (column + apart * j >= end) break;
      codes[j] = Tokens::load(from + apart * Tokens::bits / 8 * j, end - (column + apart * j));
      if constexpr (block > 8) scales[j] = __ldg(scale + j * next_scale);
    }
  }
  constexpr auto chunk_elements = static_cast<std::uint32_t>(token_tiles::chunk),
                 group_bytes = static_cast<std::uint32_t>(token_tiles::group_bytes);
  const std::uint32_t chunks = (k + chunk_elements - 1) / chunk_elements,
                      chunk = column / chunk_elements;
  const auto every = static_cast<std::uint32_t>(args.group_step);
  const std::uint32_t place = (at.first * chunks + chunk * at.count + at.row / 8) * every +
                              static_cast<std::uint32_t>(args.group_first);
  char* to = static_cast<char*>(args.tiles) + std::uint64_t{place} * group_bytes;
  const std::uint32_t piece = threadIdx.x % 8;
  if (!args.by_blocks) to += token_tiles::piece_offset(in_group, piece);
#pragma unroll
  for (int j = 0; j < prepare_pieces; ++j) {
    if (chunk + apart / chunk_elements * j >= chunks) break;
    const uint4 eight = Tokens::template elements<F16>(codes[j], scales[j]);
    if (F16 && args.by_blocks)
      put_by_blocks(to, in_group, piece, eight);
    else
      ptx::st_global_v4(to, eight);
    to += std::uint64_t{at.count * every} * (apart / chunk_elements * group_bytes);
  }
}

template <class Tokens>
__device__ void prepare_tiles(const PrepareTilesArgs& args) {
  follow_previous_grid();
  if (args.only_if != nullptr && *args.only_if == 0) return;
  const std::uint32_t column = blockIdx.x * (256 * prepare_pieces) + threadIdx.x % 32 * 8;
  const bool tiled = Tokens::block > 8 && args.tiled, experts = args.rows.expert_rows != nullptr;
  const auto m = static_cast<std::uint32_t>(args.rows.m),
             matrices = static_cast<std::uint32_t>(args.rows.matrices);
  const std::uint32_t each = (m + 7) / 8, all = experts ? each + matrices : each * matrices;
#pragma unroll 1
  for (std::uint32_t group = blockIdx.y; group < all; group += gridDim.y) {
    GroupPlace at;
    if (experts) {
      const TokenGroup found = find_token_group(args.rows, group, tiled);
      if (!found.found) continue;
      at = expert_group(found);
    } else {
      at = batch_group(args.rows, group, tiled);
    }
    if constexpr (Tokens::block == 16) {
      if (args.f16) {
        prepare_group<Tokens, true>(args, at, column);
        continue;
      }
    }
    prepare_group<Tokens, false>(args, at, column);
  }
}

}  // namespace microscale::cuda
