// How many thread blocks a kernel is launched with: a function of the shape alone, the same for the
// host that launches and for the tests.
//
// A thread owns `rows_per_thread` chunks of 8 neighbouring elements, one below the other. The
// threads of a block form a rectangle of 2^column_shift chunks along a row; a narrow matrix gets a
// narrow rectangle.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace microscale::cuda {

inline constexpr int threads_per_block = 256;
inline constexpr int chunk_elements = 8;
inline constexpr int rows_per_thread = 4;
struct Launch {
  unsigned grid_x, grid_y, grid_z;  // y and z together count the tiles of rows
  unsigned threads;
  int column_shift;
};

MICROSCALE_HD constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// `widest`: the largest column_shift; `row_tiles_each`: tiles of rows a thread block goes through,
/// one after another, where there are many. Any grid is right: blocks stride over the rows.
constexpr Launch tile_launch(std::int64_t rows, std::int64_t cols, int narrowest, int widest,
                             int row_tiles_each) {
  const std::int64_t chunks = ceil_div(cols, chunk_elements);
  int shift = narrowest;
  while (shift < widest && (std::int64_t{1} << shift) < chunks) ++shift;
  const std::int64_t row_tiles = ceil_div(rows, (threads_per_block >> shift) * rows_per_thread);
  const std::int64_t column_tiles = ceil_div(chunks, std::int64_t{1} << shift);
  const std::int64_t grid_rows =
      row_tiles * column_tiles < 16384 ? row_tiles : ceil_div(row_tiles, row_tiles_each);
  const std::int64_t z = ceil_div(grid_rows, 32768);
  return {static_cast<unsigned>(column_tiles), static_cast<unsigned>(ceil_div(grid_rows, z)),
          static_cast<unsigned>(z), static_cast<unsigned>(threads_per_block), shift};
}

/// `block` is the format's 16 or 32; tiled: into 128x4 scale tiles, whose padding is written too.
/// Long runs along a row (a thread block reads 4 KiB of a BF16 row) are kindest to DRAM; NVFP4,
/// bound by instructions, finds its addresses once for four tiles.
constexpr Launch quantize_launch(std::int64_t rows, std::int64_t cols, int block, bool tiled) {
  if (tiled) {
    rows = ceil_div(rows, 128) * 128;
    cols = ceil_div(cols, 4 * block) * 4 * block;
  }
  return tile_launch(rows, cols, tiled ? 4 : 2, 8, block == 16 ? 4 : 1);
}

constexpr Launch dequantize_launch(std::int64_t rows, std::int64_t cols) {
  return tile_launch(rows, cols, 2, 5, 1);
}

/// One thread per block of elements, for the `general` kernels.
constexpr Launch block_launch(std::int64_t rows, std::int64_t cols, int block, bool tiled) {
  const std::int64_t blocks = cols / block;
  const std::int64_t total =
      tiled ? ceil_div(rows, 128) * 128 * (ceil_div(blocks, 4) * 4) : rows * blocks;
  return {static_cast<unsigned>(ceil_div(total, threads_per_block)), 1, 1,
          static_cast<unsigned>(threads_per_block), 0};
}

/// Elements of a row that one thread of a fused kernel takes: whole blocks of every format.
inline constexpr int lane_elements = 32;

struct FusedLaunch {
  Launch launch;
  int row_threads;        // neighbouring threads that share a row, or a piece of it
  int column_pieces;      // pieces of a row
  std::int64_t turns;     // rows that a thread visits,
  std::int64_t row_step;  // and from one to the next: what all visit at once
};

/// Groups of 32 elements in a row, the padding of tiled scales included.
constexpr std::int64_t lane_groups(std::int64_t cols, int block, bool tiled) {
  const std::int64_t unit = tiled && 4 * block > lane_elements ? 4 * block : lane_elements;
  return ceil_div(cols, unit) * (unit / lane_elements);
}

constexpr std::int64_t narrow_row_threads(std::int64_t groups) {
  std::int64_t threads = 4;
  while (threads < 32 && threads < groups) threads *= 2;
  return threads;
}

/// Blocks of 256 threads of a SiLU or Hadamard kernel that a multiprocessor holds.
MICROSCALE_HD constexpr int lane_blocks(int element_bytes) { return element_bytes == 2 ? 3 : 2; }

/// SiLU and Hadamard: a warp takes 1024 elements of a row, or several rows of a narrow matrix, and goes
/// down its columns; as many warps as run at once, so that addresses and tables are made once.
constexpr FusedLaunch lane_launch(std::int64_t rows, std::int64_t cols, int block, bool tiled,
                                  int element_bytes, int multiprocessors) {
  constexpr std::int64_t warps = threads_per_block / 32;
  const std::int64_t groups = lane_groups(cols, block, tiled);
  const std::int64_t row_threads = narrow_row_threads(groups), rows_here = 32 / row_threads;
  const std::int64_t columns = ceil_div(groups, row_threads);
  const std::int64_t lines = tiled ? ceil_div(rows, 128) * 128 : rows;
  const std::int64_t resident = multiprocessors * lane_blocks(element_bytes) * warps / columns;
  std::int64_t slots = ceil_div(lines, rows_here);
  if (slots > resident) slots = resident > 0 ? resident : 1;
  const std::int64_t turns = ceil_div(lines, slots * rows_here);
  slots = ceil_div(lines, turns * rows_here);  // no more than these turns need
  return {{static_cast<unsigned>(ceil_div(slots * columns, warps)), 1, 1,
           static_cast<unsigned>(threads_per_block), 0},
          static_cast<int>(row_threads), static_cast<int>(columns), turns, slots * rows_here};
}

/// Registers of a thread of an RMSNorm kernel: with 72, four blocks of 224 threads (rows of 7168) fit.
MICROSCALE_HD constexpr int row_registers(int element_bytes, bool residual) {
  return element_bytes == 2 ? (residual ? 80 : 72) : 128;
}

/// Dynamic shared memory of a warp of an RMSNorm kernel, of 16-bit types: 64 bytes a lane for the input and
/// the residual, and 128 for the weights as FP32.
MICROSCALE_HD constexpr int row_stage_bytes(int element_bytes, bool residual) {
  return element_bytes == 2 ? (residual ? 2 : 1) * 2048 + 4096 : 64;
}

/// RMSNorm: a thread block holds a row (up to 16384 elements in registers), or several of a narrow matrix,
/// and takes a few of them where there are many: with as many blocks as run at once, waiting at barriers in
/// step, all would load or all compute (measured: a fifth slower with a residual).
constexpr FusedLaunch row_launch(std::int64_t rows, std::int64_t cols, int block, bool tiled,
                                 int element_bytes, bool residual, int multiprocessors) {
  constexpr std::int64_t most = 512;
  const std::int64_t groups = lane_groups(cols, block, tiled);
  std::int64_t row_threads = narrow_row_threads(groups);
  if (groups > 32) row_threads = groups < most ? ceil_div(groups, 32) * 32 : most;
  const std::int64_t threads = row_threads <= 32 ? 128 : row_threads;
  const std::int64_t rows_here = threads / row_threads;
  const std::int64_t lines = tiled ? ceil_div(rows, 128) * 128 : rows;
  const std::int64_t resident =
      multiprocessors * (65536 / (threads * row_registers(element_bytes, residual)));
  const std::int64_t most_turns = residual ? 4 : 8;
  std::int64_t turns = ceil_div(lines, resident * rows_here);
  if (turns > most_turns) turns = most_turns;
  const std::int64_t blocks = ceil_div(lines, turns * rows_here);
  return {{static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 0},
          static_cast<int>(row_threads), static_cast<int>(ceil_div(groups, row_threads)), turns,
          blocks * rows_here};
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

}  // namespace microscale::cuda
