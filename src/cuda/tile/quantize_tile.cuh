// Dense to block-scaled, the part that all formats share. Geometry: geometry.hpp.
//
// A lane loads four chunks of eight elements, one in each of four rows, before it uses any; finds
// the scales together with its neighbours (row_exchange.cuh); encodes; stores. Tiles that lie
// wholly inside the matrix, nearly all, look at no bounds.
#pragma once

#include <cstdint>

#include "cuda/args.hpp"
#include "cuda/geometry.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/tile/block_scale.cuh"
#include "cuda/tile/encode.cuh"
#include "cuda/tile/errors.cuh"
#include "cuda/tile/row_exchange.cuh"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

/// This thread's place in a tile of rows.
struct RowCursor {
  const char* source;
  std::uint8_t* target;
  std::uint8_t* scales;  // of the word's row and first block; where bytes are written, of its own
  // For tiles at the matrix' edges, in rows from this thread's first on:
  int rows_left;       // 0 if the column is outside
  int word_rows_left;  // above 0: this lane stores a word
};

template <class Format, class Input, bool Tiled>
struct RowTile {
  static constexpr int lanes = Format::block / chunk_elements;
  using Exchange = RowExchange<lanes>;
  using Owned = std::uint32_t[Exchange::owned];
  using Chunk = std::uint32_t[Input::words];

  const QuantizeArgs& args;
  typename Format::Shared shared;
  std::int64_t blocks;           // scale bytes of a row
  std::int64_t step, code_step;  // bytes from a row of this lane to the next
  int rows_apart;

  __device__ bool inside(const RowCursor& at, int row) const {
    return row * rows_apart < at.rows_left;
  }

  template <bool Whole>
  __device__ void load(const RowCursor& at, Chunk (&w)[4]) const {
    if constexpr (Whole) {
#pragma unroll
      for (int j = 0; j < 4; ++j) Input::load(at.source + j * step, w[j]);
    } else {  // what is outside reads something inside
      const char* source = at.rows_left > 0 ? at.source : static_cast<const char*>(args.input);
#pragma unroll
      for (int j = 0; j < 4; ++j) Input::load(inside(at, j) ? source + j * step : source, w[j]);
    }
  }

  /// Returns whether there is a NaN that the scales ignore.
  __device__ bool find_maxima(const Chunk (&w)[4], Owned& own) const {
    if constexpr (Input::element_bytes == 2) {
      if (args.nan_propagates) {
        std::uint32_t rows[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const std::uint32_t first = Input::amax_pair(w[2 * i]),
                              second = Input::amax_pair(w[2 * i + 1]);
          rows[i] = Input::Packed::max_abs(__byte_perm(first, second, 0x5410),
                                           __byte_perm(first, second, 0x7632));
        }
        Exchange::template maxima_packed<typename Input::Packed>(rows, own);
        return false;
      }
    }
    std::uint32_t amax[4], largest = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) largest = max(largest, amax[j] = Input::amax_bits(w[j]));
    const bool with_nan = !args.nan_propagates && largest > infinity_bits;
    if (with_nan) {
#pragma unroll
      for (int j = 0; j < 4; ++j) amax[j] = amax_without_nan<Input>(w[j]);
    }
    Exchange::maxima(amax, own);
    return with_nan;
  }

  __device__ void search(const Chunk (&w)[4], std::uint32_t (&told)[4], Owned& scale) const {
    std::uint32_t chosen[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      chosen[j] = Exchange::told(scale, j);
      Format::template search<Input>(shared, w[j], told[j], chosen[j]);
    }
#pragma unroll
    for (int i = 0; i < Exchange::owned; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (j == Exchange::owned_row(i)) scale[i] = chosen[j];
  }

  template <bool Whole>
  __device__ void store_scales(const RowCursor& at, Owned& scale) const {
    if constexpr (!Whole) {  // padding is zero
#pragma unroll
      for (int i = 0; i < Exchange::owned; ++i)
        if (!inside(at, Exchange::owned_row(i))) scale[i] = 0;
    }
    if (Tiled || args.tiles.scale_words) {
      const std::uint32_t word = Exchange::word(scale);
      if (Whole ? Exchange::has_word() : at.word_rows_left > 0) ptx::st_global_b32(at.scales, word);
    } else if (Exchange::writes()) {
#pragma unroll
      for (int i = 0; i < Exchange::owned; ++i)
        if (Whole || inside(at, Exchange::owned_row(i)))
          at.scales[Exchange::owned_row(i) * rows_apart * blocks] =
              static_cast<std::uint8_t>(scale[i]);
    }
  }

  template <bool Whole>
  __device__ void run(const RowCursor& at, const Chunk (&w)[4]) const {
    std::uint32_t told[4];
    Owned own, scale;
    const bool with_nan = find_maxima(w, own);
    Format::plan(args, shared, own, scale);
#pragma unroll
    for (int j = 0; j < 4; ++j) told[j] = Exchange::told(own, j);
    if constexpr (Format::searches) search(w, told, scale);
    store_scales<Whole>(at, scale);

    typename Format::Codes codes[4];
    if (!with_nan && Format::template are_plain<Input>(shared, told)) {
#pragma unroll
      for (int j = 0; j < 4; ++j) codes[j] = Format::template encode<Input>(w[j], told[j]);
    } else {  // one special block takes its lanes down the slow path
#pragma unroll
      for (int j = 0; j < 4; ++j) codes[j] = Format::template encode_any<Input>(w[j], told[j]);
    }
    if (args.zero_is_positive) {
#pragma unroll
      for (int j = 0; j < 4; ++j) codes[j] = Format::positive_zeros(codes[j]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (Whole || inside(at, j)) Format::store(at.target + j * code_step, codes[j]);
  }
};

/// `count` row tiles of column tile `column_tile`, from row tile `index` on, each `stride` further.
/// Tiled: stride is 1, within 128 rows, or steps over whole 128 rows.
template <class Format, class Input, bool Tiled, bool Consecutive>
__device__ void quantize_tiles(const QuantizeArgs& args, int column_tile, int index, int stride,
                               int count) {
  using Tile = RowTile<Format, Input, Tiled>;
  using Exchange = typename Tile::Exchange;
  const int shift = args.tiles.column_shift;
  const int side_by_side = threads_per_block >> shift;  // rows of threads
  // Tiled: the four rows of a thread lie side by side in a 128x4 scale tile.
  const int rows_apart = Tiled ? 32 : side_by_side;
  const int tile_rows = Tiled ? side_by_side : 4 * side_by_side;  // from a row tile to the next
  const int groups = shift - 3;  // log2 of the row tiles in 128 rows
  const std::int64_t tile_row = Tiled ? static_cast<std::int64_t>(index >> groups) * 128 +
                                            (index & ((1 << groups) - 1)) * tile_rows
                                      : static_cast<std::int64_t>(index) * tile_rows;
  const std::int64_t step = Tiled && !Consecutive
                                ? static_cast<std::int64_t>(stride >> groups) * 128
                                : static_cast<std::int64_t>(stride) * tile_rows;

  // What depends on the thread block alone, then on the thread.
  const std::int64_t first_column = static_cast<std::int64_t>(column_tile) << (shift + 3);
  const std::int64_t first_block = static_cast<std::uint64_t>(first_column) / Format::block;
  const std::int64_t blocks = static_cast<std::uint64_t>(args.cols) / Format::block;
  const std::int64_t scale_step = Tiled ? ceil_div(blocks, 4) * 4 : blocks;  // bytes of a row
  const int in_row = static_cast<int>(threadIdx.x & ((1u << shift) - 1));
  const int inside_row = static_cast<int>(threadIdx.x >> shift);
  const int block = in_row / Tile::lanes;  // from first_block on
  RowCursor at{};
  at.source = static_cast<const char*>(args.input) +
              (tile_row * args.row_stride + first_column) * Input::element_bytes +
              (inside_row * args.row_stride + in_row * chunk_elements) * Input::element_bytes;
  at.target = args.codes + (tile_row * args.code_stride + first_column * Format::code_bits / 8) +
              (inside_row * args.code_stride + in_row * Format::code_bits);
  if constexpr (Tiled) {
    const std::int64_t first_tile =
        static_cast<std::int64_t>(index >> groups) * (scale_step * 128) + first_block * 128;
    const int line = (index & ((1 << groups) - 1)) * tile_rows + inside_row;
    at.scales = args.scales + first_tile +
                (block / 4 * static_cast<int>(tiled_128x4::tile_bytes) + line * 16 +
                 Exchange::word_row() * 4);
  } else {
    const bool words = args.tiles.scale_words;
    at.scales = args.scales + (tile_row * blocks + first_block) +
                ((inside_row + (words ? Exchange::word_row() * rows_apart : 0)) * blocks +
                 (words ? block & ~3 : block));
  }
  Tile tile{args,
            {},
            blocks,
            args.row_stride * (rows_apart * Input::element_bytes),
            args.code_stride * rows_apart,
            rows_apart};

  for (int i = 0; i < count && index < args.tiles.count; ++i) {
    typename Tile::Chunk w[4];
    if (index < args.tiles.whole_rows && column_tile < args.tiles.whole_columns) {
      tile.template load<true>(at, w);
      if (i == 0) tile.shared = Format::prepare(args);  // while the loads are under way
      tile.template run<true>(at, w);
    } else {
      const std::int64_t left = args.rows - (tile_row + i * step + inside_row);
      const int few = left < 4096 ? static_cast<int>(left) : 4096;
      at.rows_left = first_column + in_row * chunk_elements < args.cols ? few : 0;
      at.word_rows_left = !Exchange::has_word() || first_block + block >= scale_step ? 0
                          : Tiled                                                    ? 1
                                  : few - Exchange::word_row() * rows_apart;
      tile.template load<false>(at, w);
      if (i == 0) tile.shared = Format::prepare(args);
      tile.template run<false>(at, w);
    }
    index += stride;
    at.source += step * args.row_stride * Input::element_bytes;
    at.target += step * args.code_stride;
    at.scales += Tiled && Consecutive ? step * 16 : step * scale_step;
  }
}

/// A matrix shared out among the grid: the thread blocks side by side in y go down it together.
template <class Format, class Input, bool Tiled>
__device__ void quantize_tile(const QuantizeArgs& args) {
  const int stride = static_cast<int>(gridDim.y);
  quantize_tiles<Format, Input, Tiled, false>(
      args, static_cast<int>(blockIdx.x),
      static_cast<int>(blockIdx.y) + static_cast<int>(blockIdx.z) * stride * args.tiles.each,
      stride, args.tiles.each);
}

}  // namespace microscale::cuda
