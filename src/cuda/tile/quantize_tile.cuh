// Dense to block-scaled, the part that all formats share. Geometry: geometry.hpp.
//
// A lane loads four chunks of eight elements, one in each of four rows, before it uses any; finds
// the scales together with its neighbours (row_exchange.cuh); encodes; stores. A thread block goes
// down `row_tiles_each` such tiles. Tiles that lie wholly inside the matrix, nearly all, look at no
// bounds.
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

/// This thread's place in a tile of rows. Counts of rows are those of the matrix from this thread's
/// first row on, 0 where its column is outside, and at most `many_rows`.
struct RowCursor {
  const char* source;
  std::uint8_t* target;
  std::uint8_t* scales;  // of the word's row and first block; where bytes are written, of its own
  int rows_left;
  int word_rows_left;    // above 0: this lane stores a word
  bool whole;            // the thread block's tile lies inside the matrix
};
inline constexpr std::int64_t many_rows = 1 << 24;

/// min(rows, many_rows), and 0 for less.
__device__ inline int count_rows(std::int64_t rows) {
  return static_cast<int>(rows < 0 ? 0 : rows > many_rows ? many_rows : rows);
}

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
  bool by_four;                  // scale bytes leave as words

  __device__ bool inside(const RowCursor& at, int row) const {
    return row * rows_apart < at.rows_left;
  }

  __device__ void load(const RowCursor& at, Chunk (&w)[4]) const {
    if (at.whole) {
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

  __device__ void store_scales(const RowCursor& at, Owned& scale) const {
    if (!at.whole)  // padding is zero
#pragma unroll
      for (int i = 0; i < Exchange::owned; ++i)
        if (!inside(at, Exchange::owned_row(i))) scale[i] = 0;
    if (Tiled || by_four) {
      const std::uint32_t word = Exchange::word(scale);
      if (at.word_rows_left > 0) ptx::st_global_b32(at.scales, word);
    } else if (Exchange::writes()) {
#pragma unroll
      for (int i = 0; i < Exchange::owned; ++i)
        if (inside(at, Exchange::owned_row(i)))
          at.scales[Exchange::owned_row(i) * rows_apart * blocks] =
              static_cast<std::uint8_t>(scale[i]);
    }
  }

  __device__ void run(const RowCursor& at) const {
    Chunk w[4];
    load(at, w);
    std::uint32_t told[4];
    Owned own, scale;
    const bool with_nan = find_maxima(w, own);
    Format::plan(args, shared, own, scale);
#pragma unroll
    for (int j = 0; j < 4; ++j) told[j] = Exchange::told(own, j);
    if constexpr (Format::searches) search(w, told, scale);
    store_scales(at, scale);

    typename Format::Codes codes[4];
    if (!with_nan && Format::template is_plain<Input>(shared, told)) {
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
    if (at.whole) {
#pragma unroll
      for (int j = 0; j < 4; ++j) Format::store(at.target + j * code_step, codes[j]);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (inside(at, j)) Format::store(at.target + j * code_step, codes[j]);
    }
  }
};

/// Thread blocks a multiprocessor shall hold: what bounds the registers of a thread.
template <class Format, class Input>
inline constexpr int resident_blocks = Format::searches || Input::element_bytes == 4 ? 4 : 5;

/// `tiles` tiles of rows from number `index` on, in one stripe of columns.
template <class Format, class Input, bool Tiled>
__device__ void quantize_tiles(const QuantizeArgs& args, std::int64_t column_tile,
                               std::int64_t index, int tiles) {
  using Tile = RowTile<Format, Input, Tiled>;
  using Exchange = typename Tile::Exchange;
  const int shift = args.column_shift;
  const int side_by_side = threads_per_block >> shift;  // rows of threads
  const int rows_apart = Tiled ? 32 : side_by_side;
  const std::int64_t first_column = column_tile << shift;  // in chunks
  const unsigned in_row = threadIdx.x & ((1u << shift) - 1);
  const std::int64_t column = (first_column + in_row) * chunk_elements;
  const std::int64_t blocks = static_cast<std::uint64_t>(args.cols) / Format::block;
  const std::int64_t block = static_cast<std::uint64_t>(column) / Format::block;
  const bool by_four =  // four neighbouring blocks lie on lanes of one row
      (1 << shift) >= 4 * Tile::lanes &&
      ((blocks | static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(args.scales))) & 3) ==
          0;
  const Tile tile{args,
                  Format::prepare(args),
                  blocks,
                  args.row_stride * (rows_apart * Input::element_bytes),
                  args.code_stride * rows_apart,
                  rows_apart,
                  by_four};

  // Tiled: the four rows of a thread are those that lie side by side in a 128x4 tile, and the tiles
  // of a thread block follow each other within 32 rows.
  const int groups = shift - 3;  // log2 of the row tiles in 128 rows
  const std::int64_t tile_row =
      Tiled ? (index >> groups) * 128 + (index & ((1 << groups) - 1)) * side_by_side
            : index * 4 * side_by_side;
  const int rows_on = Tiled ? side_by_side : 4 * side_by_side;  // from a tile to the next
  const std::int64_t row = tile_row + static_cast<std::int64_t>(threadIdx.x >> shift);
  const std::int64_t word_block = block & ~std::int64_t{3};
  RowCursor at;
  at.source = static_cast<const char*>(args.input) +
              (row * args.row_stride + column) * Input::element_bytes;
  at.target = args.codes + row * args.code_stride + column * Format::code_bits / 8;
  const std::int64_t word_row = row + Exchange::word_row() * rows_apart;
  at.scales = args.scales + (Tiled     ? tiled_128x4::offset(word_row, word_block, blocks)
                             : by_four ? word_row * blocks + word_block
                                       : row * blocks + block);
  const bool has_scales = block < (Tiled ? ceil_div(blocks, 4) * 4 : blocks);
  at.rows_left = column < args.cols ? count_rows(args.rows - row) : 0;
  at.word_rows_left = !has_scales || !Exchange::has_word() ? 0
                      : Tiled                              ? static_cast<int>(many_rows)
                                                           : count_rows(args.rows - word_row);
  const int last = side_by_side + 3 * rows_apart;  // rows from the first of a tile to behind its last
  int whole_rows =                                 // from where on a whole tile fits, and more
      (first_column + (1 << shift)) * chunk_elements <= args.cols
          ? count_rows(args.rows - tile_row - last + 1)
          : 0;
  int covered = count_rows((Tiled ? ceil_div(args.rows, 128) * 128 : args.rows) - tile_row);
  for (int i = tiles; i > 0 && covered > 0; --i) {
    at.whole = whole_rows > 0;
    tile.run(at);
    at.source += rows_on * args.row_stride * Input::element_bytes;
    at.target += rows_on * args.code_stride;
    at.scales += Tiled ? rows_on * 16 : rows_on * blocks;
    at.rows_left -= rows_on;
    if (!Tiled) at.word_rows_left -= rows_on;
    whole_rows -= rows_on;
    covered -= rows_on;
  }
}

/// The tiles of the matrix shared out among the grid.
template <class Format, class Input, bool Tiled>
__device__ void quantize_tile(const QuantizeArgs& args) {
  const std::int64_t place = blockIdx.y + static_cast<std::int64_t>(gridDim.y) * blockIdx.z;
  quantize_tiles<Format, Input, Tiled>(args, blockIdx.x, place * args.row_tiles_each,
                                       args.row_tiles_each);
}

}  // namespace microscale::cuda
