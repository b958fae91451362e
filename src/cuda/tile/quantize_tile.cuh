// Dense to block-scaled, the part that all formats share. Geometry: geometry.hpp.
//
// A lane loads four chunks of eight elements, one in each of four rows, before it uses any. A block
// lies on `lanes` neighbouring lanes (MX 4, NVFP4 2), so four rows hold four blocks per group of
// lanes: maxima are exchanged so that each lane ends with the whole block of its own row (three
// shuffles for four blocks), computes that block's scale once, and tells the others. Scale bytes
// leave four at a time.
#pragma once

#include <cstdint>

#include "cuda/args.hpp"
#include "cuda/geometry.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/tile/block_scale.cuh"
#include "cuda/tile/encode.cuh"
#include "cuda/tile/errors.cuh"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

inline constexpr unsigned whole_warp = 0xFFFFFFFFu;

/// The largest magnitude of a chunk with a NaN in it, NaNs left out.
template <class Input>
__device__ std::uint32_t amax_without_nan(const std::uint32_t (&w)[Input::words]) {
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < chunk_elements; ++i) {
    const std::uint32_t magnitude = __float_as_uint(Input::value(w, i)) & 0x7FFFFFFFu;
    if (magnitude <= infinity_bits) largest = max(largest, magnitude);
  }
  return largest;
}

/// amax[j]: this lane's part of row j's block. Afterwards own[i] is the whole of row owned_row(i)'s
/// block.
template <int Lanes>
__device__ void reduce_rows(const std::uint32_t (&amax)[4], std::uint32_t (&own)[4 / Lanes]) {
  const bool odd = threadIdx.x & 1;
  if constexpr (Lanes == 4) {
    const bool upper = threadIdx.x & 2;
    std::uint32_t kept[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t other = __shfl_xor_sync(whole_warp, upper ? amax[i] : amax[2 + i], 2);
      kept[i] = max(upper ? amax[2 + i] : amax[i], other);
    }
    const std::uint32_t other = __shfl_xor_sync(whole_warp, odd ? kept[0] : kept[1], 1);
    own[0] = max(odd ? kept[1] : kept[0], other);
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t other =
          __shfl_xor_sync(whole_warp, odd ? amax[2 * i] : amax[2 * i + 1], 1);
      own[i] = max(odd ? amax[2 * i + 1] : amax[2 * i], other);
    }
  }
}

/// The same from the chunks themselves, two rows' 16-bit maxima in one register.
template <int Lanes, class Input>
__device__ void reduce_rows_packed(const std::uint32_t (&w)[4][Input::words],
                                   std::uint32_t (&own)[4 / Lanes]) {
  using Packed = typename Input::Packed;
  const bool odd = threadIdx.x & 1;
  std::uint32_t rows[2];  // rows 0 and 1, rows 2 and 3
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t first = Input::amax_pair(w[2 * i]), second = Input::amax_pair(w[2 * i + 1]);
    rows[i] =
        Packed::max_nan(__byte_perm(first, second, 0x5410), __byte_perm(first, second, 0x7632));
  }
  if constexpr (Lanes == 4) {
    const bool upper = threadIdx.x & 2;
    const std::uint32_t other = __shfl_xor_sync(whole_warp, upper ? rows[0] : rows[1], 2);
    rows[0] = Packed::max_nan(upper ? rows[1] : rows[0], other);
  }
#pragma unroll
  for (int i = 0; i < 4 / Lanes; ++i) {
    const std::uint32_t both = Packed::max_nan(rows[i], __shfl_xor_sync(whole_warp, rows[i], 1));
    own[i] = __float_as_uint(Packed::widen(odd ? both >> 16 : both & 0xFFFFu));
  }
}

/// Row of own[i].
template <int Lanes>
__device__ int owned_row(int i) {
  return 2 * i + static_cast<int>(threadIdx.x & (Lanes - 1));
}

/// A value that the owner of row j's block holds.
template <int Lanes>
__device__ std::uint32_t from_owner(const std::uint32_t (&own)[4 / Lanes], int j) {
  const unsigned lane = threadIdx.x & 31u;
  return __shfl_sync(whole_warp, own[Lanes == 4 ? 0 : j / 2],
                     (lane & ~(Lanes - 1u)) | (j & (Lanes - 1)));
}

/// Stores a scale byte; `inside` says whether that block exists. All lanes call it. `block` is the
/// block's column; `row_major` points at its byte there.
template <int Lanes, bool Tiled>
__device__ void store_scale(const QuantizeArgs& args, std::int64_t blocks, bool by_four,
                            std::int64_t row, std::int64_t block, std::uint8_t* row_major,
                            bool inside, std::uint32_t byte) {
  if (Tiled || by_four) {
    std::uint32_t word = inside ? byte : 0u;
    word |= __shfl_down_sync(whole_warp, word, Lanes) << 8;
    word |= __shfl_down_sync(whole_warp, word, 2 * Lanes) << 16;
    if (threadIdx.x & (3 * Lanes)) return;  // not the first of the four
    if constexpr (Tiled) {
      if (row < ceil_div(args.rows, 128) * 128 && block < blocks)
        ptx::st_global_b32(args.scales + tiled_128x4::offset(row, block, blocks), word);
    } else {
      if (inside) ptx::st_global_b32(row_major, word);
    }
  } else if (inside) {
    *row_major = static_cast<std::uint8_t>(byte);
  }
}

/// Four rows: loads, finds scales, encodes, stores. `source` and `target` are this lane's place in
/// the first; rows_left of this lane's rows, counted in rows of the matrix, exist.
template <class Format, class Input, bool Tiled>
struct RowTile {
  static constexpr int lanes = Format::block / chunk_elements;
  static constexpr int owned = 4 / lanes;

  const QuantizeArgs& args;
  typename Format::Shared shared;
  std::int64_t blocks, block;
  std::int64_t step, code_step;  // bytes from a row of this lane to the next
  int rows_apart;
  bool by_four;

  __device__ void run(const char* source, std::uint8_t* target, std::uint8_t* scales,
                      std::int64_t first_row, int rows_left) const {
    std::uint32_t w[4][Input::words];
    if (rows_left <= 0) source = static_cast<const char*>(args.input);  // read, not used
#pragma unroll
    for (int j = 0; j < 4; ++j)
      Input::load(j * rows_apart < rows_left ? source + j * step : source, w[j]);

    std::uint32_t own[owned], multiplier[owned], scale[owned], told[4];
    bool with_nan = false;  // which the scales ignore
    if (Input::element_bytes == 2 && args.nan_propagates) {
      if constexpr (Input::element_bytes == 2) reduce_rows_packed<lanes, Input>(w, own);
    } else {
      std::uint32_t amax[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) amax[j] = Input::amax_bits(w[j]);
      if (!args.nan_propagates &&
          max(max(amax[0], amax[1]), max(amax[2], amax[3])) > infinity_bits) {
        with_nan = true;
#pragma unroll
        for (int j = 0; j < 4; ++j) amax[j] = amax_without_nan<Input>(w[j]);
      }
      reduce_rows<lanes>(amax, own);
    }
#pragma unroll
    for (int i = 0; i < owned; ++i) {
      const BlockPlan plan = Format::plan(args, shared, own[i]);
      multiplier[i] = plan.multiplier;
      scale[i] = plan.scale;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) told[j] = from_owner<lanes>(multiplier, j);
    if constexpr (Format::searches) {
      std::uint32_t chosen[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        chosen[j] = from_owner<lanes>(scale, j);
        Format::template search<Input>(shared, w[j], told[j], chosen[j]);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if ((j & (lanes - 1)) == static_cast<int>(threadIdx.x & (lanes - 1)))
          scale[lanes == 4 ? 0 : j / 2] = chosen[j];
    }
#pragma unroll
    for (int i = 0; i < owned; ++i) {
      const int below = owned_row<lanes>(i) * rows_apart;
      store_scale<lanes, Tiled>(args, blocks, by_four, first_row + below, block,
                                scales + 2 * i * rows_apart * blocks, below < rows_left,
                                scale[i] & 0xFFu);
    }

    // The four chunks are encoded together; one special block takes its lanes down the slow path.
    typename Format::Codes codes[4];
    bool special = with_nan;
#pragma unroll
    for (int j = 0; j < 4; ++j) special |= !Format::template is_plain<Input>(told[j]);
    if (!special) {
#pragma unroll
      for (int j = 0; j < 4; ++j) codes[j] = Format::template encode<Input>(w[j], told[j]);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) codes[j] = Format::template encode_any<Input>(w[j], told[j]);
    }
    if (args.zero_is_positive) {
#pragma unroll
      for (int j = 0; j < 4; ++j) codes[j] = Format::positive_zeros(codes[j]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (j * rows_apart < rows_left) Format::store(target + j * code_step, codes[j]);
  }
};

/// Thread blocks a multiprocessor shall hold: what bounds the registers of a thread.
template <class Format, class Input>
inline constexpr int resident_blocks = Format::searches || Input::element_bytes == 4 ? 4 : 5;

/// A thread block goes down its columns in strides, so addresses are found once: row tiles first,
/// first + step, ..., at most `most` of them.
template <class Format, class Input, bool Tiled>
__device__ void quantize_tiles(const QuantizeArgs& args, std::int64_t column_tile,
                               std::int64_t row_tile, std::int64_t step, int most) {
  using Tile = RowTile<Format, Input, Tiled>;
  const int shift = args.column_shift;
  const int rows_apart = threads_per_block >> shift;
  const std::int64_t column =
      ((column_tile << shift) + (threadIdx.x & ((1u << shift) - 1))) *
      chunk_elements;
  // Unsigned divisions: plain shifts.
  const std::int64_t blocks = static_cast<std::uint64_t>(args.cols) / Format::block;
  const bool by_four =  // four neighbouring blocks lie on lanes of one row
      shift >= 4 &&
      ((blocks | static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(args.scales))) & 3) ==
          0;
  const Tile tile{args,
                  Format::prepare(args),
                  blocks,
                  static_cast<std::int64_t>(static_cast<std::uint64_t>(column) / Format::block),
                  args.row_stride * (rows_apart * Input::element_bytes),
                  args.code_stride * rows_apart,
                  rows_apart,
                  by_four};
  const std::int64_t stride = step * (4 * rows_apart);
  const std::int64_t end = Tiled ? ceil_div(args.rows, 128) * 128 : args.rows;
  std::int64_t tile_row = row_tile * (4 * rows_apart);
  const int inside_row = static_cast<int>(threadIdx.x >> shift);
  const std::int64_t row = tile_row + inside_row;
  const char* source = static_cast<const char*>(args.input) +
                       (row * args.row_stride + column) * Input::element_bytes;
  std::uint8_t* target = args.codes + row * args.code_stride + column * Format::code_bits / 8;
  std::uint8_t* scales =
      args.scales + (row + owned_row<Tile::lanes>(0) * rows_apart) * blocks + tile.block;
  while (tile_row < end) {
    const std::int64_t below = args.rows - tile_row;
    const int rows_left =
        column < args.cols ? static_cast<int>(below < 4096 ? below : 4096) - inside_row : 0;
    tile.run(source, target, scales, tile_row + inside_row, rows_left);
    tile_row += stride;
    if (tile_row >= end || --most == 0) break;
    source += stride * args.row_stride * Input::element_bytes;
    target += stride * args.code_stride;
    scales += stride * blocks;
  }
}

/// The tiles of the matrix shared out among the grid.
template <class Format, class Input, bool Tiled>
__device__ void quantize_tile(const QuantizeArgs& args) {
  quantize_tiles<Format, Input, Tiled>(
      args, blockIdx.x, blockIdx.y + static_cast<std::int64_t>(gridDim.y) * blockIdx.z,
      static_cast<std::int64_t>(gridDim.y) * gridDim.z, 0);
}

}  // namespace microscale::cuda
