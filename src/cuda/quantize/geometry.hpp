// How many thread blocks a kernel is launched with: a function of the shape alone, the same for the
// host that launches and for the tests.
//
// A thread owns `rows_per_thread` chunks of 8 neighbouring elements. Where rows are long they lie
// in one row: each of a block's eight warps takes a run of 1024 elements, one run in each of eight
// rows. In narrower matrices they lie one below the other: the threads of a block form a rectangle
// of 2^column_shift chunks along a row; a narrow matrix gets a narrow rectangle.
#pragma once

#include <cstdint>

#include "formats/integers.hpp"
#include "cuda/device/launch_shape.hpp"
#include "cuda/quantize/args.hpp"
#include "layouts/grouped.hpp"

namespace microscale::cuda {

inline constexpr int chunk_elements = 8;
inline constexpr int rows_per_thread = 4;
inline constexpr int run_shift = 5;                    // column_shift where a warp takes a run
inline constexpr int run_apart = 32 * chunk_elements;  // elements from a lane's chunk to its next
inline constexpr int run_elements = 4 * run_apart;     // of a warp
/// As wide as reaches over the chunks of a row, but narrower where that leaves few of the threads
/// beyond them: 7168 elements are seven times 1024.
constexpr int column_shift_for(std::int64_t chunks, int narrowest, int widest) {
  int shift = narrowest;
  while (shift < widest && (std::int64_t{1} << shift) < chunks) ++shift;
  while (shift > 6 && (ceil_div(chunks, std::int64_t{1} << shift) << shift) > chunks + chunks / 16)
    --shift;
  return shift;
}

/// `widest`: the largest column_shift.
constexpr Launch tile_launch(std::int64_t rows, std::int64_t cols, int narrowest, int widest) {
  const std::int64_t chunks = ceil_div(cols, chunk_elements);
  const int shift = column_shift_for(chunks, narrowest, widest);
  const std::int64_t row_tiles = ceil_div(rows, (threads_per_block >> shift) * rows_per_thread);
  const std::int64_t z = ceil_div(row_tiles, 32768);
  return {static_cast<unsigned>(ceil_div(chunks, std::int64_t{1} << shift)),
          static_cast<unsigned>(ceil_div(row_tiles, z)), static_cast<unsigned>(z),
          static_cast<unsigned>(threads_per_block), shift};
}

/// Thread blocks of a quantizer that a multiprocessor shall hold at once: what bounds its
/// registers. A search, bound by its arithmetic, keeps a block's 16 elements in them.
MICROSCALE_HD constexpr int resident_blocks(bool searches, int element_bytes) {
  return searches ? 3 : element_bytes == 4 ? 4 : 5;
}

/// Whether a row is cut into runs: few of the threads lie beyond its end.
constexpr bool has_runs(std::int64_t cols) {
  return ceil_div(cols, run_elements) * run_elements <= cols + cols / 8;
}

/// Whether row-major scale bytes can leave four at a time: four neighbouring blocks lie on one
/// row's lanes, and rows begin at words.
constexpr bool rows_have_scale_words(std::int64_t cols, int block, int column_shift,
                                     bool scales_aligned) {
  return (1 << column_shift) >= 4 * block / chunk_elements && cols / block % 4 == 0 &&
         scales_aligned;
}

struct TiledLaunch {
  Launch grid;
  RowTiles tiles;
};

/// `block` is the format's 16 or 32; tiled: into 128x4 scale tiles, whose padding is written too;
/// scales_aligned: the scales begin at a multiple of 4 bytes; `each`: row tiles that a thread block
/// goes through where there are many; `resident`: thread blocks that the device holds at once,
/// which work on neighbouring rows at any time; offers_runs: the kernel knows them.
constexpr TiledLaunch quantize_launch(std::int64_t rows, std::int64_t cols, int block, bool tiled,
                                      bool scales_aligned, int each, int resident,
                                      bool offers_runs = true) {
  const std::int64_t padded_cols = tiled ? ceil_div(cols, 4 * block) * 4 * block : cols;
  const std::int64_t padded_rows = tiled ? ceil_div(rows, 128) * 128 : rows;
  const bool runs = offers_runs && has_runs(padded_cols);
  Launch grid = tile_launch(padded_rows, padded_cols, tiled ? 4 : 2, tiled ? 4 : 8);
  if (runs) grid.column_shift = run_shift;
  const int shift = grid.column_shift;
  const std::int64_t width = runs ? run_elements : std::int64_t{chunk_elements} << shift;
  const std::int64_t tile_rows = (threads_per_block >> shift) * (runs ? 1 : rows_per_thread);
  const std::int64_t count = ceil_div(padded_rows, tile_rows);
  const std::int64_t unit = tiled ? 128 / tile_rows : 1;  // row tiles in 128 rows
  grid.grid_x = static_cast<unsigned>(ceil_div(padded_cols, width));
  std::int64_t abreast = resident / static_cast<std::int64_t>(grid.grid_x) / unit * unit;
  if (abreast < unit) abreast = unit;
  if (abreast > 32768) abreast = 32768;
  if (count * grid.grid_x < 16 * resident) each = 1;
  if (each == 1 || abreast > count) abreast = count < 32768 ? count : 32768;
  grid.grid_y = static_cast<unsigned>(abreast);
  grid.grid_z = static_cast<unsigned>(ceil_div(count, abreast * each));
  return {grid,
          {.column_shift = shift,
           .runs = runs,
           .count = static_cast<std::int32_t>(count),
           .each = each,
           .whole_rows = static_cast<std::int32_t>(tiled ? rows / 128 * unit : rows / tile_rows),
           .whole_columns = static_cast<std::int32_t>(cols / width),
           .scale_words = tiled || rows_have_scale_words(cols, block, shift, scales_aligned)}};
}

/// Elements up to which a matrix with row-major scales is small: one chunk a lane, since four would
/// leave lanes without any. NVFP4's table of multipliers pays earlier. Measured with 132
/// multiprocessors; fewer have fewer lanes to fill.
constexpr std::int64_t small_elements(int block, int multiprocessors) {
  return (std::int64_t{block == 16 ? 2 : 8} << 20) * multiprocessors / 132;
}

constexpr TiledLaunch small_launch(std::int64_t rows, std::int64_t cols, int block,
                                   bool scales_aligned) {
  const std::int64_t chunks = ceil_div(cols, chunk_elements);
  const int shift = column_shift_for(chunks, 2, 8);
  const std::int64_t row_tiles = ceil_div(rows, threads_per_block >> shift);
  const std::int64_t z = ceil_div(row_tiles, 32768);
  TiledLaunch launch{};
  launch.grid = {static_cast<unsigned>(ceil_div(chunks, std::int64_t{1} << shift)),
                 static_cast<unsigned>(ceil_div(row_tiles, z)), static_cast<unsigned>(z),
                 static_cast<unsigned>(threads_per_block), shift};
  launch.tiles.column_shift = shift;
  launch.tiles.scale_words = rows_have_scale_words(cols, block, shift, scales_aligned);
  return launch;
}

/// Along columns: tiles of 128 rows x 256 bytes. grid_x goes down groups of 2^column_shift tiles
/// side by side, grid_y from group to group, so that tiles that run together are near each other in
/// both directions.
inline constexpr int transpose_tile_rows = 128;
inline constexpr int transpose_tile_row_bytes = 256;

constexpr Launch columns_launch(std::int64_t rows, std::int64_t cols, std::int64_t element_bytes,
                                bool tiled, int widest = 7) {
  if (tiled) cols = ceil_div(cols, 128) * 128;
  const std::int64_t tiles = ceil_div(cols * element_bytes, transpose_tile_row_bytes);
  const std::int64_t row_tiles = ceil_div(rows, transpose_tile_rows);
  int shift = 0;
  while ((shift < widest && (std::int64_t{1} << shift) < tiles &&
          row_tiles << shift < std::int64_t{1} << 30) ||
         tiles >> shift > 32768)
    ++shift;
  const std::int64_t grid_x = row_tiles << shift;
  return {static_cast<unsigned>(grid_x),
          static_cast<unsigned>(ceil_div(tiles, std::int64_t{1} << shift)), 1,
          static_cast<unsigned>(threads_per_block), shift};
}

constexpr Launch dequantize_launch(std::int64_t rows, std::int64_t cols) {
  return tile_launch(rows, cols, 2, 5);
}

/// One thread per block of elements, for the `general` kernels.
constexpr Launch block_launch(std::int64_t rows, std::int64_t cols, int block, bool tiled) {
  const std::int64_t blocks = cols / block;
  const std::int64_t total =
      tiled ? ceil_div(rows, 128) * 128 * (ceil_div(blocks, 4) * 4) : rows * blocks;
  return {static_cast<unsigned>(ceil_div(total, threads_per_block)), 1, 1,
          static_cast<unsigned>(threads_per_block), 0};
}

/// The same along columns.
constexpr Launch columns_block_launch(std::int64_t rows, std::int64_t cols, int block, bool tiled) {
  const std::int64_t total =
      tiled ? ceil_div(cols, 128) * 128 * ceil_div(rows, 4 * block) * 4 : cols * (rows / block);
  return {static_cast<unsigned>(ceil_div(total, threads_per_block)), 1, 1,
          static_cast<unsigned>(threads_per_block), 0};
}

/// abs_max: a grid that fills the machine and strides over the rows.
constexpr Launch abs_max_launch(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  const std::int64_t chunks = ceil_div(cols, chunk_elements) * rows;
  const std::int64_t wanted = ceil_div(chunks, threads_per_block * rows_per_thread);
  const std::int64_t most = static_cast<std::int64_t>(multiprocessors) * 8;
  return {static_cast<unsigned>(wanted < most ? wanted : most), 1, 1,
          static_cast<unsigned>(threads_per_block), 0};
}

/// repack: one thread per four scale bytes of the padded tiles.
constexpr Launch repack_launch(std::int64_t lines, std::int64_t blocks) {
  const std::int64_t words = ceil_div(lines, 128) * 128 * ceil_div(blocks, 4);
  return {static_cast<unsigned>(ceil_div(words, threads_per_block)), 1, 1,
          static_cast<unsigned>(threads_per_block), 0};
}

/// repack_to_containers and back: a thread takes four pieces of 8 packed bytes, a block apart.
inline constexpr int container_piece = 8, container_pieces = 4;
constexpr Launch container_launch(std::int64_t code_bytes) {
  Launch launch{};
  launch.grid_x = static_cast<unsigned>(
      ceil_div(code_bytes, std::int64_t{threads_per_block} * container_piece * container_pieces));
  launch.grid_y = launch.grid_z = 1;
  launch.threads = threads_per_block;
  return launch;
}

/// Grouped quantize: grid_y and grid_z together count units of rows, each of one expert; where
/// the experts begin is known on the device only, so there are as many as there could be.
struct GroupedLaunch {
  Launch launch;
  int rows_per_unit, tiles_per_unit;
};

/// A unit is 64 rows (or a tile, where that is more): enough that finding its expert costs little.
/// A thread block is as wide as leaves few of its threads beyond the columns: 7168 are seven times
/// 1024.
constexpr GroupedLaunch grouped_launch(std::int64_t rows, std::int64_t cols, std::int64_t experts,
                                       int block, bool tiled) {
  if (tiled) cols = ceil_div(cols, 4 * block) * 4 * block;
  const std::int64_t chunks = ceil_div(cols, chunk_elements);
  GroupedLaunch grouped{};
  Launch& launch = grouped.launch;
  launch.column_shift = column_shift_for(chunks, tiled ? 4 : 2, 8);
  const int tile_rows = (threads_per_block >> launch.column_shift) * rows_per_thread;
  grouped.tiles_per_unit = tile_rows < 64 ? 64 / tile_rows : 1;
  grouped.rows_per_unit = tile_rows * grouped.tiles_per_unit;
  const int height = tiled ? 128 : grouped.rows_per_unit;
  const std::int64_t units =
      grouped::most_tile_rows(rows, experts, height) * (height / grouped.rows_per_unit);
  const std::int64_t z = units > 32768 ? ceil_div(units, 32768) : 1;
  launch.grid_x = static_cast<unsigned>(ceil_div(chunks, std::int64_t{1} << launch.column_shift));
  launch.grid_y = static_cast<unsigned>(ceil_div(units, z));
  launch.grid_z = static_cast<unsigned>(z);
  launch.threads = threads_per_block;
  return grouped;
}

}  // namespace microscale::cuda
