// Dense to block-scaled, the part that all formats share. Geometry: geometry.hpp.
//
// A lane loads four chunks of eight elements before it uses any; finds the scales together with its
// neighbours (row_exchange.cuh); encodes; stores. The chunks lie one below the other, or, where
// rows are long, 256 elements apart in one row: a warp then reads 2 KiB of BF16 in one piece, and
// its scale bytes, row-major, are a whole sector. Into 128x4 scale tiles such a thread block takes
// eight rows whose scale words are neighbours there, and gathers them in shared memory. Tiles that
// lie wholly inside the matrix, nearly all, look at no bounds.
#pragma once

#include <cstdint>

#include "cuda/quantize/args.hpp"
#include "cuda/quantize/geometry.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/block/block_scale.cuh"
#include "cuda/block/encode.cuh"
#include "cuda/block/rounding_errors.cuh"
#include "cuda/block/row_exchange.cuh"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

/// This thread's place in a tile of rows.
struct RowCursor {
  const char* source;
  std::uint8_t* target;
  std::uint8_t* scales;  // of the word's chunk and first block; where bytes are written, of its own
  // For tiles at the matrix' edges, rows or (runs) columns from this thread's first on:
  int left;        // 0 if the first is outside
  int words_left;  // above 0: this lane stores a word
};

/// Runs: a lane's chunks lie in one row; otherwise `rows_apart` rows from one to the next.
template <class Format, class Input, bool Tiled, bool Runs>
struct RowTile {
  static constexpr int lanes = Format::block / chunk_elements;
  using Exchange = RowExchange<lanes>;
  using Owned = std::uint32_t[Exchange::owned];
  using Chunk = std::uint32_t[Input::words];
  // Runs, 128x4: scale words of eight rows, for each 128x4 tile its 32 bytes.
  static constexpr int gathered_words = run_elements / Format::block / 4 * 8;

  const QuantizeArgs& args;
  typename Format::Shared shared;
  int rows_apart;
  std::int64_t blocks;      // scale bytes of a row
  std::uint32_t* gathered;  // Runs, 128x4: where this lane's scale word goes

  // From a chunk of this lane to the next: rows or columns; bytes.
  __device__ int apart() const { return Runs ? run_apart : rows_apart; }
  __device__ std::int64_t step() const {
    return Runs ? run_apart * Input::element_bytes
                : args.row_stride * (rows_apart * Input::element_bytes);
  }
  __device__ std::int64_t code_step() const {
    return Runs ? run_apart / 8 * Format::code_bits : args.code_stride * rows_apart;
  }
  __device__ std::int64_t scale_step() const {
    return Runs ? run_apart / Format::block : blocks * rows_apart;
  }

  __device__ bool inside(const RowCursor& at, int chunk) const { return chunk * apart() < at.left; }

  template <bool Whole>
  __device__ void load(const RowCursor& at, Chunk (&w)[4]) const {
    if constexpr (Whole) {
#pragma unroll
      for (int j = 0; j < 4; ++j) Input::load(at.source + j * step(), w[j]);
    } else {  // what is outside reads something inside
      const char* source = at.left > 0 ? at.source : static_cast<const char*>(args.input);
#pragma unroll
      for (int j = 0; j < 4; ++j) Input::load(inside(at, j) ? source + j * step() : source, w[j]);
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

  template <bool Whole>
  __device__ void store_scales(const RowCursor& at, Owned& scale) const {
    if constexpr (!Whole) {  // padding is zero
#pragma unroll
      for (int i = 0; i < Exchange::owned; ++i)
        if (!inside(at, Exchange::owned_row(i))) scale[i] = 0;
    }
    if (Tiled || args.tiles.scale_words) {
      const std::uint32_t word = Exchange::word(scale);
      if constexpr (Tiled && Runs) {
        if (Exchange::has_word()) *gathered = word;
      } else if (Whole ? Exchange::has_word() : at.words_left > 0) {
        ptx::st_global_b32(at.scales, word);
      }
    } else if (Exchange::writes()) {
#pragma unroll
      for (int i = 0; i < Exchange::owned; ++i)
        if (Whole || inside(at, Exchange::owned_row(i)))
          at.scales[Exchange::owned_row(i) * scale_step()] = static_cast<std::uint8_t>(scale[i]);
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
    if constexpr (Format::searches) Format::template search<Input>(args, shared, w, told, scale);
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
      if (Whole || inside(at, j)) Format::store(at.target + j * code_step(), codes[j]);
  }
};

/// `count` row tiles of column tile `column_tile`, from row tile `index` on, each `stride` further.
/// Tiled: stride is 1, within 128 rows, or steps over whole 128 rows.
/// Whole: they all lie inside the matrix.
template <class Format, class Input, bool Tiled, bool Consecutive, bool Runs, bool Whole>
__device__ void quantize_tiles_of(const QuantizeArgs& args, int column_tile, int index, int stride,
                                  int count) {
  using Tile = RowTile<Format, Input, Tiled, Runs>;
  using Exchange = typename Tile::Exchange;
  const int shift = Runs ? run_shift : args.tiles.column_shift;
  const int side_by_side = threads_per_block >> shift;  // rows of threads
  // Tiled: four rows that lie side by side in a 128x4 scale tile, a thread's or (runs) four warps'.
  const int rows_apart = Tiled ? 32 : side_by_side;
  const int tile_rows = Tiled ? (Runs ? 2 : side_by_side)
                              : (Runs ? 1 : 4) * side_by_side;  // from a row tile to the next
  const int groups = Runs ? 4 : shift - 3;                      // log2 of the row tiles in 128 rows
  const std::int64_t tile_row = Tiled ? static_cast<std::int64_t>(index >> groups) * 128 +
                                            (index & ((1 << groups) - 1)) * tile_rows
                                      : static_cast<std::int64_t>(index) * tile_rows;
  const std::int64_t step = Tiled && !Consecutive
                                ? static_cast<std::int64_t>(stride >> groups) * 128
                                : static_cast<std::int64_t>(stride) * tile_rows;

  // What depends on the thread block alone, then on the thread.
  const std::int64_t first_column = static_cast<std::int64_t>(column_tile)
                                    << (shift + (Runs ? 5 : 3));
  const std::int64_t first_block = static_cast<std::uint64_t>(first_column) / Format::block;
  const std::int64_t blocks = static_cast<std::uint64_t>(args.cols) / Format::block;
  const std::int64_t row_scales = Tiled ? ceil_div(blocks, 4) * 4 : blocks;  // bytes of a row
  const int in_row = static_cast<int>(threadIdx.x & ((1u << shift) - 1));
  const int warp = static_cast<int>(threadIdx.x >> shift);  // runs: of the thread block
  const int inside_row = Tiled && Runs ? (warp & 1) + (warp >> 1) * 32 : warp;
  const int block = in_row / Tile::lanes;  // from first_block on
  RowCursor at{};
  at.source = static_cast<const char*>(args.input) +
              (tile_row * args.row_stride + first_column) * Input::element_bytes +
              (inside_row * args.row_stride + in_row * chunk_elements) * Input::element_bytes;
  at.target = args.codes + (tile_row * args.code_stride + first_column * Format::code_bits / 8) +
              (inside_row * args.code_stride + in_row * Format::code_bits);
  Tile tile{args, {}, rows_apart, blocks, nullptr};
  __shared__ std::uint32_t gathered[2][Tiled && Runs ? Tile::gathered_words : 1];
  if constexpr (Tiled) {
    const std::int64_t first_tile =
        static_cast<std::int64_t>(index >> groups) * (row_scales * 128) + first_block * 128;
    const int line = (index & ((1 << groups) - 1)) * tile_rows;
    const int word = Exchange::word_row() * (run_apart / Format::block / 4) + block / 4;
    if constexpr (Runs) {  // this thread's word of those gathered, and the one that it stores
      tile.gathered = gathered[0] + word * 8 + (warp & 1) * 4 + (warp >> 1);
      at.scales = args.scales + first_tile + line * 16 +
                  (static_cast<int>(threadIdx.x) / 8 * static_cast<int>(tiled_128x4::tile_bytes) +
                   static_cast<int>(threadIdx.x) % 8 * 4);
    } else {
      at.scales = args.scales + first_tile +
                  (block / 4 * static_cast<int>(tiled_128x4::tile_bytes) +
                   (line + inside_row) * 16 + Exchange::word_row() * 4);
    }
  } else {
    const bool words = args.tiles.scale_words;
    at.scales = args.scales + (tile_row * blocks + first_block) +
                (inside_row * blocks + (words ? Exchange::word_row() * tile.scale_step() : 0) +
                 (words ? block & ~3 : block));
  }
  const bool stores_gathered = Tiled && Runs && threadIdx.x < Tile::gathered_words &&
                               first_block + threadIdx.x / 8 * 4 < row_scales;

  for (int i = 0; i < count && (Whole || index < args.tiles.count); ++i) {
    typename Tile::Chunk w[4];
    if constexpr (!Whole) {
      const std::int64_t rows_left = args.rows - (tile_row + i * step + inside_row);
      const std::int64_t cols_left = args.cols - (first_column + in_row * chunk_elements);
      const std::int64_t left = Runs ? cols_left : rows_left;
      const int few = left < 4096 ? static_cast<int>(left) : 4096;
      at.left = (Runs ? rows_left : cols_left) > 0 ? few : 0;
      at.words_left = !Exchange::has_word() || first_block + block >= row_scales ? 0
                      : Tiled                                                    ? 1
                      : Runs ? at.left - Exchange::word_row() * tile.apart()
                             : few - Exchange::word_row() * tile.apart();
    }
    tile.template load<Whole>(at, w);
    if (i == 0) tile.shared = Format::prepare(args);  // while the loads are under way
    tile.template run<Whole>(at, w);
    if constexpr (Tiled && Runs) {
      __syncthreads();
      if (stores_gathered) ptx::st_global_b32(at.scales, gathered[i & 1][threadIdx.x]);
      tile.gathered += (i & 1 ? -1 : 1) * Tile::gathered_words;
    }
    index += stride;
    at.source += step * args.row_stride * Input::element_bytes;
    at.target += step * args.code_stride;
    at.scales += Tiled && Consecutive ? step * 16 : step * row_scales;
  }
}

template <class Format, class Input, bool Tiled, bool Consecutive>
__device__ void quantize_tiles(const QuantizeArgs& args, int column_tile, int index, int stride,
                               int count) {
  const bool whole = index + (count - 1) * stride < args.tiles.whole_rows &&
                     column_tile < args.tiles.whole_columns;
  if constexpr (!Consecutive && !Format::searches) {  // a search is bound by its arithmetic
    if (args.tiles.runs) {
      if (whole)
        quantize_tiles_of<Format, Input, Tiled, false, true, true>(args, column_tile, index, stride,
                                                                   count);
      else
        quantize_tiles_of<Format, Input, Tiled, false, true, false>(args, column_tile, index,
                                                                    stride, count);
      return;
    }
  }
  if (whole)
    quantize_tiles_of<Format, Input, Tiled, Consecutive, false, true>(args, column_tile, index,
                                                                      stride, count);
  else
    quantize_tiles_of<Format, Input, Tiled, Consecutive, false, false>(args, column_tile, index,
                                                                       stride, count);
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
