// What the kernels of block-scaled by block-scaled products on sm_100f are given, how their shared
// memory and tensor memory are laid out, and how a product is cut among their thread blocks.
#pragma once

#include <cstdint>

#include "cuda/device/kernel_types.hpp"
#include "cuda/matmul/args.hpp"
#include "formats/host_device.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda::tcgen05 {

/// A tile of d: rows of a by rows of the weights; gated, half of the latter are the gate's, then
/// come as many of up, and d has half as many columns. A thread block has 128 rows of a: a tile of
/// 256 is made by a pair of them, a cluster, by instructions that use the matrix units of both.
struct TileShape {
  int rows, columns;
  constexpr int blocks() const { return rows / 128; }
  bool operator==(const TileShape&) const = default;
};
inline constexpr int block_rows = 128;
inline constexpr TileShape narrow{128, 128}, wide{128, 256}, paired{256, 256};

/// Warps 0 to 3 take sums to d, warp 4 copies, warp 5 multiplies.
inline constexpr int threads = 192;
inline constexpr int copy_warp = 4, multiply_warp = 5, store_warps = 4;

/// Clusters stay and take tiles of their own number, then every so many further as there are
/// clusters; tiles are numbered by bands of so many row tiles (tile_in_bands).
inline constexpr int band_tiles = 8;

/// A stage is 128 bytes of each row along k: four instructions of 32.
inline constexpr int stage_row_bytes = 128;
inline constexpr int stage_steps = 4;
inline constexpr int operand_bytes = 128 * stage_row_bytes;  // of 128 rows

/// Shared memory of a block: the stages' codes (its rows of a, then its share of the weights),
/// their scale tiles likewise (of all the tile's weights), barriers. `scale_tiles`: 128x4 tiles
/// that 128 rows have a stage: 4 (NVFP4), 2 (MXFP4) or 1 (MXFP8).
struct SharedLayout {
  int stages;
  int code_bytes, scale_bytes;  // of a stage
  int scales, barriers, bytes;  // where they begin; of all
};
MICROSCALE_HD constexpr SharedLayout shared_layout(TileShape shape, int scale_tiles) {
  SharedLayout s{};
  s.stages = shape.rows == 256 ? 5 : shape.columns == 256 ? 4 : 6;
  s.code_bytes = (1 + shape.columns / shape.rows) * operand_bytes;
  s.scale_bytes =
      (1 + shape.columns / 128) * scale_tiles * static_cast<int>(tiled_128x4::tile_bytes);
  s.scales = s.stages * s.code_bytes;
  s.barriers = s.scales + s.stages * s.scale_bytes;
  s.bytes = s.barriers + 8 * (3 * s.stages + 4) + 16;  // stages, sums of two tiles, an address
  return s;
}
static_assert(shared_layout(narrow, 4).bytes <= most_shared_bytes);
static_assert(shared_layout(wide, 4).bytes <= most_shared_bytes);
static_assert(shared_layout(paired, 4).bytes <= most_shared_bytes);

/// Tensor memory of a block, in columns of 128 lanes: sums of two tiles that take turns, and scales
/// of two stages likewise. Where sums of 256 columns leave no room for the scales, the second
/// tile's begin in the first one's last `overlap` columns, which are taken to d before the others.
inline constexpr int tensor_columns = 512;
struct TensorLayout {
  int overlap, second;                  // the second tile's first column
  int scales, scale_columns, b_scales;  // of a stage, from its first column on
};
MICROSCALE_HD constexpr TensorLayout tensor_layout(int columns, int scale_tiles) {
  TensorLayout t{};
  t.b_scales = 4 * scale_tiles;
  t.scale_columns = (1 + columns / 128) * 4 * scale_tiles;
  const int spare = tensor_columns - 2 * columns - 2 * t.scale_columns;
  t.overlap = spare >= 0 ? 0 : (-spare + 31) / 32 * 32;
  t.second = columns - t.overlap;
  t.scales = tensor_columns - 2 * t.scale_columns;
  return t;
}

/// matmul_tcgen05_<a>_<b>_<rows>x<columns>: `threads` threads, clusters of shape.blocks().
struct MatmulTcgen05Args {
  TensorMap a, b, up;  // codes of all matrices' rows: [rows][bytes], a box 128 x stage_row_bytes
  const std::uint8_t* a_scales;  // in 128x4 tiles, those of each matrix by themselves
  const std::uint8_t* b_scales;
  const std::uint8_t* up_scales;  // gated, as `up`
  std::int64_t b_scale_matrix;    // bytes from matrix to matrix, up's likewise
  std::int64_t n;
  std::int64_t k;
  std::int32_t vectors;     // every 16 columns of a row of d begin at a multiple of 32 bytes
  std::int32_t tiles_down;  // a batch: of all matrices; grouped: as many as there can be
  std::int32_t column_tiles;
  std::int32_t matrix_tiles_down;  // a batch: of one matrix
  std::int32_t matrix_row_tiles;   // of scales of a, of one matrix
  ProductRows rows;
  ProductOutput output;
};

inline constexpr int scale_threads = 256;

/// matmul_scale_tiles: `scale_threads` threads, row tiles x ceil(blocks / 32) thread blocks.
struct ScaleTilesArgs {
  const std::uint8_t* scales;  // in rows of `blocks` bytes
  std::uint8_t* tiles;         // row tile after row tile of all matrices, as product_tile counts
  std::int32_t blocks;
  std::int32_t matrix_tiles_down;  // a batch: of one matrix
  std::int32_t words;              // rows begin at multiples of 4 bytes
  ProductRows rows;
};

}  // namespace microscale::cuda::tcgen05
