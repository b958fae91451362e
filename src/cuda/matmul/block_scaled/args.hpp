// What the kernels of block-scaled by block-scaled products on sm_120f are given, and how a product
// is cut among their thread blocks.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"
#include "cuda/matmul/args.hpp"

namespace microscale::cuda::block_scaled {

/// A thread block makes `tile_rows` x `tile_columns` of d; gated: half as many columns, from as
/// many rows of the gate and of up.
inline constexpr int tile_rows = 128;
inline constexpr int tile_columns = 128;
inline constexpr int threads = 128;
/// Bytes of a row of a that are in shared memory at a time; `stages` times that are on their way.
inline constexpr int stage_row_bytes = 64;
inline constexpr int stages = 3;
inline constexpr int resident_blocks = 2;  // of a multiprocessor: what bounds registers
/// Thread block i makes tile (i / h, i % h) of a band of h tiles, bands being so high: what
/// runs at a time shares rows of both operands in the L2.
inline constexpr int band_tiles = 8;

/// Where tiles are too few to fill a GPU, a cluster of `split_parts` thread blocks shares a tile's
/// stages out, in order, and adds its sums up in order.
inline constexpr int split_parts = 4;
inline constexpr std::int64_t split_most_tiles = 84;  // four each, two a multiprocessor of 170
inline constexpr std::int64_t split_least_stages = 32;

/// The first stage of `all` that falls to part `part` of `parts`.
MICROSCALE_HD constexpr int first_stage(int all, int part, int parts) {
  return all / parts * part + all % parts * part / parts;
}

/// matmul_block_scaled_<a>_<b>, or _split_<a>_<b> with clusters: `threads` threads, tiles_down *
/// column_tiles thread blocks, times the parts.
struct MatmulBlockScaledArgs {
  const std::uint8_t* a;  // codes of all rows, those of a row side by side, row after row
  const std::uint8_t* a_scales;
  const std::uint8_t* b;
  const std::uint8_t* b_scales;
  const std::uint8_t* up;  // gated
  const std::uint8_t* up_scales;
  std::int64_t b_matrix;  // bytes from matrix to matrix
  std::int64_t b_scale_matrix;
  std::int64_t up_scale_matrix;
  std::int32_t a_tiled;  // scales are in 128x4 tiles, those of each matrix by themselves; else in
  std::int32_t b_tiled;  // rows
  std::int32_t up_tiled;
  std::int32_t a_align;  // scales in rows: those of each begin at a multiple of 4, 2 or 1 bytes
  std::int32_t b_align;
  std::int32_t wide;     // rows of codes begin at multiples of 16 bytes, else of 8
  std::int32_t vectors;  // columns 4 i to 4 i + 3 of a row of d may be stored at once
  std::int64_t n;
  std::int64_t k;
  std::int32_t tiles_down;  // a batch: of all matrices; grouped: as many as there can be
  std::int32_t column_tiles;
  std::int32_t matrix_tiles_down;  // a batch: of one matrix
  ProductRows rows;
  ProductOutput output;
};

}  // namespace microscale::cuda::block_scaled
