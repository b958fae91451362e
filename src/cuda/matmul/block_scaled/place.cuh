// Where things are in a block-scaled product's tile of 128 rows x 128 columns: four warps share it
// out 2 x 2, and each has four pieces of 16 rows by four of 16 columns, 32 rows (columns) apart.
// Then the four rows whose scales a lane supplies are those that lie side by side in the 128x4
// layout of scales.
//
//   row of the tile  32 j + 16 warp + 8 half + g   piece j, lanes 4 g to 4 g + 3
//
// Gated, columns 8 to 15 of a piece are up's where 0 to 7 are the gate's, so that a thread holds
// both sums of an element of d.
//
// Shared memory has 64 bytes a row and stage; 16-byte chunk c of row r is at chunk c ^ (r / 2 % 4),
// so that the eight rows that ldmatrix reads at a time lie in different banks.
#pragma once

#include <cstdint>

#include "cuda/matmul/block_scaled/plan.hpp"

namespace microscale::cuda::block_scaled {

inline constexpr int pieces = 4;
inline constexpr int operand_stage_bytes = tile_rows * stage_row_bytes;
inline constexpr int stage_bytes = 2 * operand_stage_bytes;  // a, then b
inline constexpr int shared_bytes = stages * stage_bytes;

/// What a thread is in its thread block.
struct Place {
  int lane, group, in_group;  // lane = 4 group + in_group
  int row_warp, column_warp;  // 0 or 1
};
__device__ inline Place place_of(int thread) {
  const int lane = thread % 32, warp = thread / 32;
  return {lane, lane / 4, lane % 4, warp % 2, warp / 2};
}

/// Byte of an operand's stage.
__device__ inline int chunk_at(int row, int chunk) {
  return row * stage_row_bytes + ((chunk ^ (row / 2 % 4)) << 4);
}

/// Gated: the column of d, of the tile's 64, that row `row` of b's tile makes.
__device__ inline int gated_column(int row) {
  const int piece = row / 32;
  return 32 * (piece % 2) + 16 * (piece / 2) + 8 * (row / 16 % 2) + row % 8;
}
/// Gated: whether that row is up's.
__device__ inline bool is_up(int row) { return row / 8 % 2 != 0; }

}  // namespace microscale::cuda::block_scaled
