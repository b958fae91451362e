// Quantizing along rows: a matrix, or many experts' rows, shared out among a grid. Geometry:
// args.hpp; what a lane does with its four chunks: cuda/block/lane_chunks.cuh.
//
// Into 128x4 scale tiles a thread block whose chunks lie in one row takes eight rows whose scale
// words are neighbours there, and gathers them in shared memory. Tiles that lie wholly inside the
// matrix, nearly all, look at no bounds.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/block/row_exchange.cuh"
#include "cuda/block/lane_chunks.cuh"
#include "cuda/quantize/args.hpp"
#include "formats/integers.hpp"
#include "layouts/grouped.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

// Which expert a unit of rows belongs to, where many experts' rows are quantized by one launch: a
// thread block finds it by summing up the experts' units, 256 at a time.

/// Rows [begin, begin + rows) of the input, an expert's, and where this thread block is in them.
struct ExpertUnit {
  std::int64_t expert, begin, rows;
  std::int64_t first_unit;  // of the expert, counted over all experts
  bool found;
};

/// The expert that `unit` falls to. Tiled: units count through the experts' regions of scales. All
/// threads of the block call it.
template <bool Tiled>
__device__ ExpertUnit find_expert(const ExpertSlabs& args, std::int64_t matrix_rows,
                                  std::int64_t unit) {
  constexpr int warps = threads_per_block / 32;
  __shared__ std::int64_t warp_units[warps];
  __shared__ ExpertUnit result;
  const int lane = static_cast<int>(threadIdx.x & 31), warp = static_cast<int>(threadIdx.x >> 5);
  const int padding = Tiled ? 128 : args.rows_per_unit;
  if (threadIdx.x == 0) result = {};  // all of it: it is returned whole
  std::int64_t before = 0;            // units of the experts of former rounds
  for (std::int64_t first = 0; first < args.experts; first += threads_per_block) {
    const std::int64_t expert = first + threadIdx.x;
    grouped::RowSpan own{0, 0};
    std::int64_t reserved = 0;  // rows that it has units for
    if (expert < args.experts) {
      own = grouped::rows_of_expert(
          {args.numbers, args.wide_numbers != 0, args.capacity, matrix_rows}, expert);
      reserved = Tiled ? grouped::region_rows(args.capacity, own.count) : own.count;
    }
    const std::int64_t units =
        grouped::tile_rows(reserved, padding) * static_cast<unsigned>(padding / args.rows_per_unit);
    std::int64_t sum = units;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const std::int64_t other = __shfl_up_sync(whole_warp, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane == 31) warp_units[warp] = sum;
    __syncthreads();
    std::int64_t total = before;
#pragma unroll
    for (int i = 0; i < warps; ++i) {
      if (i == warp) sum += total;
      total += warp_units[i];
    }
    if (unit < sum && unit >= sum - units)
      result = {expert, own.first, own.count, sum - units, true};
    __syncthreads();
    if (unit < total) break;
    before = total;
  }
  return result;
}

/// What a thread block works on, one column tile of it: slabs of the matrix, or of the rows of
/// one expert, of which these are the pointers, counts and the global scale.
struct RowTileRun {
  const char* input;
  std::uint8_t* codes;
  std::uint8_t* scales;
  const float* global_scale;
  std::int64_t rows;
  int tiles, whole_tiles;    // of these rows; as in Slabs
  int index, stride, count;  // the first of its slabs, from one to the next, how many
};

/// The slabs of `of` in column tile blockIdx.x.
/// Consecutive: their stride is 1; otherwise, where scales are tiled, it steps over whole 128 rows.
/// Whole: they all lie inside the matrix.
template <class Format, class Input, bool Tiled, bool Consecutive, bool Runs, bool Whole>
__device__ void quantize_row_tiles(const QuantizeArgs& args, const RowTileRun& of) {
  int index = of.index;
  using Tile = LaneChunks<Format, Input, Tiled, Runs>;
  using Exchange = typename Tile::Exchange;
  const int shift = Runs ? run_shift : args.tiles.column_shift;
  const int side_by_side = threads_per_block >> shift;  // rows of threads
  // Tiled: four rows that lie side by side in a 128x4 scale tile, a thread's or (runs) four warps'.
  const int rows_apart = Tiled ? 32 : side_by_side;
  const int tile_rows =
      Tiled ? (Runs ? 2 : side_by_side) : (Runs ? 1 : 4) * side_by_side;  // from a slab to the next
  const int groups = Runs ? 4 : shift - 3;  // log2 of the slabs in 128 rows
  const std::int64_t tile_row = Tiled ? static_cast<std::int64_t>(index >> groups) * 128 +
                                            (index & ((1 << groups) - 1)) * tile_rows
                                      : static_cast<std::int64_t>(index) * tile_rows;
  const std::int64_t step = Tiled && !Consecutive
                                ? static_cast<std::int64_t>(of.stride >> groups) * 128
                                : static_cast<std::int64_t>(of.stride) * tile_rows;

  // What depends on the thread block alone, then on the thread.
  const std::int64_t first_column = static_cast<std::int64_t>(static_cast<int>(blockIdx.x))
                                    << (shift + (Runs ? 5 : 3));
  const std::int64_t first_block = static_cast<std::uint64_t>(first_column) / Format::block;
  const std::int64_t blocks = static_cast<std::uint64_t>(args.cols) / Format::block;
  const std::int64_t row_scales = Tiled ? ceil_div(blocks, 4) * 4 : blocks;  // bytes of a row
  const int in_row = static_cast<int>(threadIdx.x & ((1u << shift) - 1));
  const int warp = static_cast<int>(threadIdx.x >> shift);  // runs: of the thread block
  const int inside_row = Tiled && Runs ? (warp & 1) + (warp >> 1) * 32 : warp;
  const int block = in_row / Tile::lanes;  // from first_block on
  RowCursor at{};
  at.source = of.input + (tile_row * args.row_stride + first_column) * Input::element_bytes +
              (inside_row * args.row_stride + in_row * chunk_elements) * Input::element_bytes;
  at.target = of.codes + (tile_row * args.code_stride + first_column * Format::code_bits / 8) +
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
      at.scales = of.scales + first_tile + line * 16 +
                  (static_cast<int>(threadIdx.x) / 8 * static_cast<int>(tiled_128x4::tile_bytes) +
                   static_cast<int>(threadIdx.x) % 8 * 4);
    } else {
      at.scales = of.scales + first_tile +
                  (block / 4 * static_cast<int>(tiled_128x4::tile_bytes) +
                   (line + inside_row) * 16 + Exchange::word_row() * 4);
    }
  } else {
    const bool words = args.tiles.scale_words;
    at.scales = of.scales + (tile_row * blocks + first_block) +
                (inside_row * blocks + (words ? Exchange::word_row() * tile.scale_step() : 0) +
                 (words ? block & ~3 : block));
  }
  const bool stores_gathered = Tiled && Runs && threadIdx.x < Tile::gathered_words &&
                               first_block + threadIdx.x / 8 * 4 < row_scales;

  for (int i = 0; i < of.count && (Whole || index < of.tiles); ++i) {
    typename Tile::Chunk w[4];
    if constexpr (!Whole) {
      const std::int64_t rows_left = of.rows - (tile_row + i * step + inside_row);
      const std::int64_t cols_left = args.cols - (first_column + in_row * chunk_elements);
      const std::int64_t left = Runs ? cols_left : rows_left;
      const int few = left < 4096 ? static_cast<int>(left) : 4096;
      at.left = (Runs ? rows_left : cols_left) > 0 ? few : 0;
      at.words_left = !Exchange::has_word() || first_block + block >= row_scales ? 0
                      : Tiled                                                    ? 1
                      : Runs ? at.left - Exchange::word_row() * tile.apart()
                             : few - Exchange::word_row() * tile.apart();
    }
    tile.template load<Whole>(at, of.input, w);
    if (i == 0) tile.shared = Format::prepare(of.global_scale);  // while the loads are under way
    tile.template run<Whole>(at, w);
    if constexpr (Tiled && Runs) {
      __syncthreads();
      if (stores_gathered) ptx::st_global_b32(at.scales, gathered[i & 1][threadIdx.x]);
      tile.gathered += (i & 1 ? -1 : 1) * Tile::gathered_words;
    }
    index += of.stride;
    at.source += step * args.row_stride * Input::element_bytes;
    at.target += step * args.code_stride;
    at.scales += Tiled && Consecutive ? step * 16 : step * row_scales;
  }
}

/// Expert `expert`'s unit of slabs that this thread block has. All of its threads call it.
template <class Format, class Input, bool Tiled>
__device__ bool find_expert_tiles(const GroupedQuantizeArgs& args, RowTileRun& of) {
  const ExpertSlabs& experts = args.experts;
  const std::int64_t unit = blockIdx.y + static_cast<std::int64_t>(gridDim.y) * blockIdx.z;
  const ExpertUnit mine = find_expert<Tiled>(experts, args.rows, unit);
  if (!mine.found) return false;
  const std::int64_t blocks = static_cast<std::uint64_t>(args.cols) / Format::block;
  of.rows = mine.rows;
  of.input += mine.begin * args.row_stride * Input::element_bytes;
  of.codes += mine.begin * args.code_stride;
  of.scales += Tiled ? mine.first_unit * experts.rows_per_unit * (ceil_div(blocks, 4) * 4)
                     : mine.begin * blocks;
  if (of.global_scale != nullptr) of.global_scale += mine.expert;
  const int tile_rows = experts.rows_per_unit / experts.tiles_per_unit;
  of.tiles = static_cast<int>(static_cast<std::uint64_t>(Tiled ? ceil_div(mine.rows, 128) * 128
                                                               : mine.rows + tile_rows - 1) /
                              static_cast<unsigned>(tile_rows));
  of.whole_tiles =
      static_cast<int>(static_cast<std::uint64_t>(Tiled ? mine.rows / 128 * 128 : mine.rows) /
                       static_cast<unsigned>(tile_rows));
  of.index = static_cast<int>(unit - mine.first_unit) * experts.tiles_per_unit;
  of.stride = 1;
  of.count = experts.tiles_per_unit;
  return true;
}

/// A matrix shared out among the grid: the thread blocks side by side in y go down it together.
/// GroupedQuantizeArgs: a thread block has a unit, consecutive slabs of one expert. (A kernel
/// that finds out by itself which of both it does would save two thirds of the grouped ones'
/// instructions, but costs a thread of the other 22, of the 400 for its four chunks.)
template <class Format, class Input, bool Tiled, class Args>
__device__ void quantize_rows(const Args& args) {
  constexpr bool Grouped = std::is_same_v<Args, GroupedQuantizeArgs>;
  const int stride = static_cast<int>(gridDim.y);
  RowTileRun of{
      static_cast<const char*>(args.input),
      args.codes,
      args.scales,
      args.global_scale,
      args.rows,
      args.tiles.count,
      args.tiles.whole_rows,
      static_cast<int>(blockIdx.y) + static_cast<int>(blockIdx.z) * stride * args.tiles.each,
      stride,
      args.tiles.each};
  if constexpr (Grouped) {
    if (!find_expert_tiles<Format, Input, Tiled>(args, of)) return;
  }
  const bool whole = of.index + (of.count - 1) * of.stride < of.whole_tiles &&
                     static_cast<int>(blockIdx.x) < args.tiles.whole_columns;
  if constexpr (!Grouped && !Format::searches) {  // a search is bound by its arithmetic
    if (args.tiles.runs) {
      if (whole)
        quantize_row_tiles<Format, Input, Tiled, Grouped, true, true>(args, of);
      else
        quantize_row_tiles<Format, Input, Tiled, Grouped, true, false>(args, of);
      return;
    }
  }
  if (whole)
    quantize_row_tiles<Format, Input, Tiled, Grouped, false, true>(args, of);
  else
    quantize_row_tiles<Format, Input, Tiled, Grouped, false, false>(args, of);
}

}  // namespace microscale::cuda
