// How many thread blocks a kernel is launched with: a function of the shape alone, the same for the
// host that launches and for the tests.
//
// A thread owns `rows_per_thread` chunks of 8 neighbouring elements, one below the other. The
// threads of a block form a rectangle of 2^column_shift chunks along a row; a narrow matrix gets a
// narrow rectangle.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"
#include "layouts/grouped.hpp"

namespace microscale::cuda {

inline constexpr int threads_per_block = 256;
inline constexpr int chunk_elements = 8;
inline constexpr int rows_per_thread = 4;
struct Launch {
  unsigned grid_x, grid_y, grid_z;  // y and z together count the tiles of rows
  unsigned threads;
  int column_shift;
  int row_tiles_each;  // that a thread block goes through, one after another
};

MICROSCALE_HD constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// `widest`: the largest column_shift.
constexpr Launch tile_launch(std::int64_t rows, std::int64_t cols, int narrowest, int widest) {
  const std::int64_t chunks = ceil_div(cols, chunk_elements);
  int shift = narrowest;
  while (shift < widest && (std::int64_t{1} << shift) < chunks) ++shift;
  const std::int64_t row_tiles = ceil_div(rows, (threads_per_block >> shift) * rows_per_thread);
  const std::int64_t z = ceil_div(row_tiles, 32768);
  return {static_cast<unsigned>(ceil_div(chunks, std::int64_t{1} << shift)),
          static_cast<unsigned>(ceil_div(row_tiles, z)),
          static_cast<unsigned>(z),
          static_cast<unsigned>(threads_per_block),
          shift,
          1};
}

/// `block` is the format's 16 or 32; tiled: into 128x4 scale tiles, whose padding is written too.
/// Long runs along a row (a thread block reads 4 KiB of a BF16 row) are kindest to DRAM. Where there
/// are many tiles of rows, a thread block goes through `each`, and finds its addresses once; tiled,
/// these lie within the 32 rows that a scale tile's columns of 16 bytes belong to.
constexpr Launch quantize_launch(std::int64_t rows, std::int64_t cols, int block, bool tiled,
                                 int each) {
  if (tiled) {
    rows = ceil_div(rows, 128) * 128;
    cols = ceil_div(cols, 4 * block) * 4 * block;
  }
  Launch launch = tile_launch(rows, cols, tiled ? 4 : 2, 8);
  const std::int64_t row_tiles =
      ceil_div(rows, (threads_per_block >> launch.column_shift) * rows_per_thread);
  if (row_tiles * launch.grid_x < 16384) return launch;
  launch.row_tiles_each = tiled && each > (1 << (launch.column_shift - 3))
                              ? 1 << (launch.column_shift - 3)
                              : each;
  const std::int64_t grid_rows = ceil_div(row_tiles, launch.row_tiles_each);
  launch.grid_z = static_cast<unsigned>(ceil_div(grid_rows, 32768));
  launch.grid_y = static_cast<unsigned>(ceil_div(grid_rows, launch.grid_z));
  return launch;
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
          static_cast<unsigned>(threads_per_block), 0, 1};
}

/// abs_max: a grid that fills the machine and strides over the rows.
constexpr Launch abs_max_launch(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  const std::int64_t chunks = ceil_div(cols, chunk_elements) * rows;
  const std::int64_t wanted = ceil_div(chunks, threads_per_block * rows_per_thread);
  const std::int64_t most = static_cast<std::int64_t>(multiprocessors) * 8;
  return {static_cast<unsigned>(wanted < most ? wanted : most), 1, 1,
          static_cast<unsigned>(threads_per_block), 0, 1};
}

/// repack: one thread per four scale bytes of the padded tiles.
constexpr Launch repack_launch(std::int64_t lines, std::int64_t blocks) {
  const std::int64_t words = ceil_div(lines, 128) * 128 * ceil_div(blocks, 4);
  return {static_cast<unsigned>(ceil_div(words, threads_per_block)), 1, 1,
          static_cast<unsigned>(threads_per_block), 0, 1};
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

/// A unit is 64 rows (or a tile, where that is more): enough that finding its expert costs little. A
/// thread block is as wide as leaves few of its threads beyond the columns: 7168 are seven times 1024.
constexpr GroupedLaunch grouped_launch(std::int64_t rows, std::int64_t cols, std::int64_t experts,
                                       int block, bool tiled) {
  if (tiled) cols = ceil_div(cols, 4 * block) * 4 * block;
  const std::int64_t chunks = ceil_div(cols, chunk_elements);
  GroupedLaunch grouped{};
  Launch& launch = grouped.launch;
  launch.column_shift = tiled ? 4 : 2;
  while (launch.column_shift < 8 && (std::int64_t{1} << launch.column_shift) < chunks)
    ++launch.column_shift;
  const auto width = [&] { return std::int64_t{1} << launch.column_shift; };
  while (launch.column_shift > 6 && ceil_div(chunks, width()) * width() > chunks + chunks / 16)
    --launch.column_shift;
  const int tile_rows = (threads_per_block >> launch.column_shift) * rows_per_thread;
  grouped.tiles_per_unit = tile_rows < 64 ? 64 / tile_rows : 1;
  grouped.rows_per_unit = tile_rows * grouped.tiles_per_unit;
  const int height = tiled ? 128 : grouped.rows_per_unit;
  const std::int64_t units = grouped::most_tile_rows(rows, experts, height) *
                             (height / grouped.rows_per_unit);
  const std::int64_t z = units > 32768 ? ceil_div(units, 32768) : 1;
  launch.grid_x = static_cast<unsigned>(ceil_div(chunks, width()));
  launch.grid_y = static_cast<unsigned>(ceil_div(units, z));
  launch.grid_z = static_cast<unsigned>(z);
  launch.threads = threads_per_block;
  return grouped;
}

}  // namespace microscale::cuda
