// Makes a of a matrix product ready for the kernels of many rows: 16-bit elements with their block
// scales inside, in the tiles of layouts/token_tiles.hpp. Dense elements are copied as they are.
// What block-scaled ones become is exact:
//
//   NVFP4   E2M1 x UE4M3, without the global scale: at most 6 significant bits, 2^-10 to 2688
//   MXFP4   E2M1 x 2^s in BF16: 2 significant bits; from 2^128 on infinite, as in FP32
//   MXFP8   E4M3 or E5M2 x 2^s in BF16: at most 4; below 2^-126 multiples of 2^-133, nearest even;
//           infinite from 2^128 on
//
// A thread block takes groups of eight rows, warp w row w, and 256 elements of k at a time.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/geometry.hpp"
#include "cuda/tile/dequantize_tile.cuh"
#include "cuda/tile/grid_order.cuh"
#include "cuda/tile/product_output.cuh"
#include "layouts/grouped.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda {

/// A group of eight rows: whose, and which of that matrix's.
struct TokenGroup {
  std::int64_t matrix;
  MatrixRows rows;
  std::int64_t row;        // the group's first, in the matrix
  std::int64_t tile_rows;  // 128x4 tiles down the rows of the experts before
  bool found;
};

/// All threads call it. Experts are asked 256 at a time: each whether the group is its own, and, if
/// `tiled`, how many tiles its scales have.
__device__ inline TokenGroup find_token_group(const ProductRows& rows, std::int64_t group,
                                              bool tiled) {
  if (rows.offsets == nullptr) {
    const std::int64_t each = token_tiles::groups(rows.m);
    const std::int64_t matrix = group / each;
    return {matrix, rows_of_matrix(rows, matrix), (group - matrix * each) * token_tiles::group, 0,
            matrix < rows.matrices};
  }
  __shared__ TokenGroup result;
  __shared__ unsigned long long before;
  if (threadIdx.x == 0) result = {}, before = 0;
  __syncthreads();
  for (std::int64_t first = 0; first < rows.matrices; first += threads_per_block) {
    const std::int64_t expert = first + threadIdx.x;
    MatrixRows own{0, 0};
    if (expert < rows.matrices) own = rows_of_matrix(rows, expert);
    const std::int64_t at = token_tiles::first_group_of_expert(expert, own.first);
    if (own.count > 0 && group >= at && group < at + token_tiles::groups(own.count))
      result = {expert, own, (group - at) * token_tiles::group, 0, true};
    __syncthreads();
    const TokenGroup seen = result;
    if (tiled && own.count > 0 && (!seen.found || expert < seen.matrix))
      atomicAdd(&before, static_cast<unsigned long long>(grouped::tile_rows(own.count, 128)));
    if (seen.found) break;
  }
  __syncthreads();
  TokenGroup found = result;
  // Whatever memory holds for offsets, the scales lie within what there can be.
  const std::int64_t most = grouped::most_tile_rows(rows.m, rows.matrices, 128) -
                            grouped::tile_rows(found.rows.count, 128);
  const auto sum = static_cast<std::int64_t>(before);
  found.tile_rows = sum < most ? sum : most;
  __syncthreads();  // before the next one is looked for
  return found;
}

/// The first scale of row `row` of the group's matrix; block b's is scale_step(args, b) further on.
__device__ inline const std::uint8_t* scales_of_token(const PrepareTilesArgs& args,
                                                      const TokenGroup& group, std::int64_t row,
                                                      std::int64_t blocks) {
  if (!args.tiled) return args.scales + (group.rows.first + row) * blocks;
  const std::int64_t matrix = args.rows.offsets == nullptr
                                  ? group.matrix * tiled_128x4::bytes(args.rows.m, blocks)
                                  : group.tile_rows * tiled_128x4::bytes(128, blocks);
  return args.scales + matrix + tiled_128x4::offset(row, 0, blocks);
}
__device__ inline std::uint32_t scale_step(const PrepareTilesArgs& args, std::uint32_t block) {
  return args.tiled ? block / 4 * 512 + block % 4 : block;
}

/// The first group of the matrix that `group` is of.
__device__ inline std::int64_t first_group_of(const ProductRows& rows, std::int64_t matrix,
                                              const MatrixRows& own) {
  return rows.offsets == nullptr ? token_tiles::first_group(matrix, rows.m)
                                 : token_tiles::first_group_of_expert(matrix, own.first);
}

/// Eight neighbouring elements, read without a condition so that many reads are under way, then
/// made 16 bytes of FP16 or BF16. Rows at multiples of 16 bytes, and whole eights.
struct DenseTokens {
  static constexpr int block = 8;
  using Raw = uint4;
  __device__ static Raw read(const PrepareTilesArgs&, const std::uint8_t* row, std::uint32_t column,
                             const std::uint8_t*) {
    return ptx::ld_global_nc_no_allocate_v4(row + 2 * std::uint64_t{column});
  }
  __device__ static uint4 make(const PrepareTilesArgs&, const Raw& raw) { return raw; }
};

/// The same of rows that begin anywhere and end anywhere.
struct LooseTokens : DenseTokens {
  __device__ static Raw read(const PrepareTilesArgs& args, const std::uint8_t* row,
                             std::uint32_t column, const std::uint8_t*) {
    const auto* from = reinterpret_cast<const std::uint16_t*>(row) + column;
    std::uint32_t w[4] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (column + i < args.k) w[i / 2] |= std::uint32_t{from[i]} << (16 * (i % 2));
    return make_uint4(w[0], w[1], w[2], w[3]);
  }
};

/// Eight E2M1 codes, the first in the lowest bits, as 16-bit elements whose magnitudes have these
/// lower and upper bytes.
template <std::uint32_t Low, std::uint32_t Low4, std::uint32_t High, std::uint32_t High4>
__device__ inline uint4 e2m1_as(std::uint32_t codes) {
  std::uint32_t w[4];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t c = codes >> (16 * half), index = c & 0x7777u;
    const std::uint32_t low = Low4 == 0 ? 0 : ptx::prmt_b32(Low, Low4, index),
                        high = ptx::prmt_b32(High, High4, index);
    w[2 * half] = ptx::prmt_b32(low, high, 0x5140) | (c << 12 & 0x8000u) | (c << 24 & 0x80000000u);
    w[2 * half + 1] =
        ptx::prmt_b32(low, high, 0x7362) | (c << 4 & 0x8000u) | (c << 16 & 0x80000000u);
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}

/// Codec: the element's; E8M0: the scale is a power of two, else UE4M3.
template <class Codec, bool E8M0>
struct BlockTokens {
  static constexpr int block = E8M0 ? 32 : 16;
  struct Raw {
    uint2 codes;
    std::uint32_t scale;
  };
  __device__ static Raw read(const PrepareTilesArgs&, const std::uint8_t* row, std::uint32_t column,
                             const std::uint8_t* scale) {
    if constexpr (Codec::mantissa_bits == 1)
      return {make_uint2(ptx::ld_global_nc_b32(row + column / 2), 0), __ldg(scale)};
    else
      return {ptx::ld_global_nc_v2(row + column), __ldg(scale)};
  }
  __device__ static uint4 make(const PrepareTilesArgs& args, const Raw& raw) {
    const float factor =
        E8M0 ? decode_e8m0(static_cast<std::uint8_t>(raw.scale)) : decode_e4m3(raw.scale & 0x7Fu);
    if constexpr (Codec::mantissa_bits == 1) {
      const std::uint32_t codes = raw.codes.x;
      if (E8M0 || !args.f16) {
        const std::uint32_t pair = ptx::cvt_rn_bf16x2_f32(factor, factor);
        const uint4 w = e2m1_as<0xC0800000u, 0xC0804000u, 0x3F3F3F00u, 0x40404040u>(codes);
        return make_uint4(ptx::mul_rn_bf16x2(w.x, pair), ptx::mul_rn_bf16x2(w.y, pair),
                          ptx::mul_rn_bf16x2(w.z, pair), ptx::mul_rn_bf16x2(w.w, pair));
      }
      const std::uint32_t pair = ptx::cvt_rn_f16x2_f32(factor, factor);
      const uint4 w = e2m1_as<0u, 0u, 0x3E3C3800u, 0x46444240u>(codes);
      return make_uint4(ptx::mul_rn_f16x2(w.x, pair), ptx::mul_rn_f16x2(w.y, pair),
                        ptx::mul_rn_f16x2(w.z, pair), ptx::mul_rn_f16x2(w.w, pair));
    } else {
      float values[8];
      decode_fp8<Codec>(raw.codes, values);
#pragma unroll
      for (float& value : values) value = __fmul_rn(value, factor);
      return make_uint4(ptx::cvt_rn_bf16x2_f32(values[0], values[1]),
                        ptx::cvt_rn_bf16x2_f32(values[2], values[3]),
                        ptx::cvt_rn_bf16x2_f32(values[4], values[5]),
                        ptx::cvt_rn_bf16x2_f32(values[6], values[7]));
    }
  }
};

inline constexpr int pieces_at_once = 4;  // that a thread loads before it stores one

template <class Tokens>
__device__ void prepare_rows(const PrepareTilesArgs& args) {
  const std::int64_t all =
      token_tiles::all_groups(args.rows.m, args.rows.matrices, args.rows.offsets != nullptr);
  const std::uint32_t lane = threadIdx.x & 31, row_in_group = threadIdx.x / 32;
  const std::int64_t chunks = token_tiles::chunks(args.k), blocks = args.k / Tokens::block;
  const auto end = static_cast<std::uint32_t>(chunks * token_tiles::chunk);
  const std::uint32_t step = gridDim.x * 256;  // columns
  if (blockIdx.x == 0)
    for (std::int64_t i = blockIdx.y * std::int64_t{threads_per_block} + threadIdx.x;
         i < args.counter_count; i += std::int64_t{gridDim.y} * threads_per_block)
      args.counters[i] = 0;
#pragma unroll 1
  for (std::int64_t group = blockIdx.y; group < all; group += gridDim.y) {
    const TokenGroup at = find_token_group(args.rows, group, args.tiled != 0);
    if (!at.found) continue;
    const std::int64_t row = at.row + row_in_group;
    // Where there is no row, or column, another is read in its stead, and zeros are written.
    const std::int64_t read_row = row < at.rows.count ? row : at.rows.count - 1;
    const auto* from =
        static_cast<const std::uint8_t*>(args.a) + (at.rows.first + read_row) * args.a_stride;
    const std::uint8_t* scales = scales_of_token(args, at, read_row, blocks);
    const auto width = static_cast<std::uint32_t>(row < at.rows.count ? args.k : 0);
    const std::int64_t group_step = token_tiles::groups(at.rows.count) * args.group_step;
    const std::int64_t first = first_group_of(args.rows, at.matrix, at.rows);
    const std::uint32_t start = blockIdx.x * 256 + lane * 8;
    char* to =
        static_cast<char*>(args.tiles) +
        ((first * chunks + at.row / token_tiles::group) * args.group_step + args.group_first +
         start / static_cast<std::uint32_t>(token_tiles::chunk) * group_step) *
            token_tiles::group_bytes +
        token_tiles::piece_offset(row_in_group, lane % 8);
    const std::int64_t to_step = step / static_cast<std::uint32_t>(token_tiles::chunk) *
                                 group_step * token_tiles::group_bytes;
#pragma unroll 1
    for (std::uint32_t column = start; column < end; column += pieces_at_once * step) {
      typename Tokens::Raw raw[pieces_at_once];
#pragma unroll
      for (int i = 0; i < pieces_at_once; ++i) {
        const std::uint32_t own = column + i * step, read = own < width ? own : 0;
        raw[i] = Tokens::read(args, from, read, scales + scale_step(args, read / Tokens::block));
      }
#pragma unroll
      for (int i = 0; i < pieces_at_once; ++i, to += to_step) {
        const std::uint32_t own = column + i * step;
        const uint4 piece = Tokens::make(args, raw[i]);
        if (own < end) ptx::st_global_v4(to, own < width ? piece : make_uint4(0, 0, 0, 0));
      }
    }
  }
}

template <class Tokens>
__device__ void prepare_tiles(const PrepareTilesArgs& args) {
  follow_previous_grid();
  if (args.only_if != nullptr && *args.only_if == 0) return;
  if constexpr (std::is_same_v<Tokens, DenseTokens>)
    if (reinterpret_cast<std::uintptr_t>(args.a) % 16 != 0 || args.a_stride % 16 != 0 ||
        args.k % 8 != 0)
      return prepare_rows<LooseTokens>(args);
  prepare_rows<Tokens>(args);
}

}  // namespace microscale::cuda
