// Quantizing, dequantizing and repacking: what a kernel is given (one plain struct for each, the
// same on the host and in the kernel), and how many thread blocks it is launched with, a function
// of the shape alone.
//
// A thread owns `rows_per_thread` chunks of 8 neighbouring elements. Where rows are long they lie
// in one row: each of a block's eight warps takes a run of 1024 elements, one run in each of eight
// rows. In narrower matrices they lie one below the other: the threads of a block form a rectangle
// of 2^column_shift chunks along a row; a narrow matrix gets a narrow rectangle.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cuda/block/quantize_args.hpp"
#include "cuda/device/kernel_types.hpp"
#include "formats/integers.hpp"
#include "layouts/grouped.hpp"

namespace microscale::cuda {

// Entry points (cmake/kernels.cmake), their arguments and grids:
//
//   quantize_<format>_<dtype>_<mode>_<layout>           QuantizeArgs, quantize_launch
//   grouped_quantize_<format>_<dtype>_<mode>_<layout>   the same body: GroupedQuantizeArgs,
//                                                       grouped_launch; not general
//   quantize_<format>_<dtype>_general_<layout>          QuantizeArgs, block_launch
//   quantize_small_<format>_<dtype>                     QuantizeArgs, small_launch
//   quantize_columns_<format>_<dtype>_<mode>            ColumnsArgs, columns_launch
//   quantize_both_<format>_<dtype>_<mode>               ColumnsArgs, columns_launch; not general
//   quantize_columns_<format>_<dtype>_general           ColumnsArgs, columns_block_launch
//   dequantize_<format>_<dtype>                         DequantizeArgs, dequantize_launch
//   abs_max_<dtype>, global_scale                       AbsMaxArgs, abs_max_launch; one thread
//   containers_from_codes, codes_from_containers        ContainerArgs, container_launch
//   repack_to_tiled, repack_to_rows                     RepackArgs, repack_launch
//
// mode  plain    every E8M0 rule that is a function of amax alone, NVFP4 `nearest`; nearest-even
//                rounding
//       search   ScaleRule::search, along rows 4 over 6 as well; nearest-even rounding
//       general  every rule and rounding, one thread a block, slower
inline constexpr std::array<std::string_view, 4> kernel_formats{"mxfp4", "nvfp4", "mxfp8_e4m3",
                                                                "mxfp8_e5m2"};
inline constexpr std::array<std::string_view, 3> kernel_dtypes{"f32", "f16", "bf16"};
inline constexpr std::array<std::string_view, 3> kernel_modes{"plain", "search", "general"};
inline constexpr std::array<std::string_view, 2> kernel_layouts{"rows", "tiled"};

/// Where the rows of many experts are in one matrix (layouts/grouped.hpp), and how thread blocks
/// share them out: each takes a unit of rows of one expert. Quantized as if each were a matrix,
/// with a global scale of its own.
struct ExpertSlabs {
  const void* numbers;  // offsets or counts
  std::int64_t experts;
  std::int64_t capacity;      // grouped::no_capacity: offsets
  std::int32_t wide_numbers;  // of 8 bytes each, else of 4
  std::int32_t rows_per_unit;
  std::int32_t tiles_per_unit;
};

/// QuantizeArgs of all rows; global_scale: one float for each expert.
struct GroupedQuantizeArgs : QuantizeArgs {
  ExpertSlabs experts;
};

struct ColumnsArgs {
  QuantizeArgs rows;    // input, rule; codes and scales of the rows where those are written too
  std::uint8_t* codes;  // cols x code_stride bytes: those of the transposed matrix
  std::int64_t code_stride;  // bytes
  std::uint8_t* scales;      // row-major cols x (rows / block), or 128x4 tiles, padding included
  std::int32_t tiled;        // scales are in 128x4 tiles
};

struct DequantizeArgs {
  const std::uint8_t* codes;
  std::int64_t code_stride;  // bytes
  const std::uint8_t* scales;
  const float* global_scale;  // NVFP4
  void* output;               // rows x cols, 16-byte aligned rows
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t row_stride;    // elements
  std::int32_t tiled;         // scales are in 128x4 tiles
  std::int32_t column_shift;  // from dequantize_launch
};

struct RepackArgs {
  const std::uint8_t* input;
  std::uint8_t* output;
  std::int64_t lines;
  std::int64_t blocks;  // scale bytes of a line
};

struct AbsMaxArgs {
  const void* input;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t row_stride;  // elements
  std::uint32_t*
      amax_bits;        // largest magnitude as FP32 bits, NaN ignored; zeroed before the launch
  float* global_scale;  // written by global_scale_kernel from amax_bits
};

struct ContainerArgs {
  const std::uint8_t* input;
  std::uint8_t* output;
  std::int64_t code_bytes;  // of the packed side
};

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
  const std::int64_t slabs = ceil_div(rows, (threads_per_block >> shift) * rows_per_thread);
  const std::int64_t z = ceil_div(slabs, 32768);
  return {static_cast<unsigned>(ceil_div(chunks, std::int64_t{1} << shift)),
          static_cast<unsigned>(ceil_div(slabs, z)), static_cast<unsigned>(z),
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
  Slabs tiles;
};

/// `block` is the format's 16 or 32; tiled: into 128x4 scale tiles, whose padding is written too;
/// scales_aligned: the scales begin at a multiple of 4 bytes; `each`: slabs that a thread block
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
  const std::int64_t unit = tiled ? 128 / tile_rows : 1;  // slabs in 128 rows
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
  const std::int64_t slabs = ceil_div(rows, threads_per_block >> shift);
  const std::int64_t z = ceil_div(slabs, 32768);
  TiledLaunch launch{};
  launch.grid = {static_cast<unsigned>(ceil_div(chunks, std::int64_t{1} << shift)),
                 static_cast<unsigned>(ceil_div(slabs, z)), static_cast<unsigned>(z),
                 static_cast<unsigned>(threads_per_block), shift};
  launch.tiles.column_shift = shift;
  launch.tiles.scale_words = rows_have_scale_words(cols, block, shift, scales_aligned);
  return launch;
}

/// Along columns: tiles of 128 rows x 256 bytes. grid_x goes down groups of 2^column_shift tiles
/// side by side, grid_y from group to group, so that tiles that run together are near each other in
/// both directions.
inline constexpr int columns_tile_rows = 128;
inline constexpr int columns_tile_row_bytes = 256;

constexpr Launch columns_launch(std::int64_t rows, std::int64_t cols, std::int64_t element_bytes,
                                bool tiled, int widest = 7) {
  if (tiled) cols = ceil_div(cols, 128) * 128;
  const std::int64_t tiles = ceil_div(cols * element_bytes, columns_tile_row_bytes);
  const std::int64_t slabs = ceil_div(rows, columns_tile_rows);
  int shift = 0;
  while ((shift < widest && (std::int64_t{1} << shift) < tiles &&
          slabs << shift < std::int64_t{1} << 30) ||
         tiles >> shift > 32768)
    ++shift;
  const std::int64_t grid_x = slabs << shift;
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
