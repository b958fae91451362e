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

#include "cuda/matmul/block_scaled/args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/memory.cuh"
#include "layouts/tiled_128x4.hpp"

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

// Codes of one operand on their way to shared memory: 64 bytes of each of 128 rows a stage, 16
// bytes of four rows a thread, by cp.async. What is beyond the row's end is zero; rows that there
// are not repeat the last one, their sums are not stored.

/// Spread: codes of 4 bits go to chunks of 16 elements in the first 8 of 16 bytes, as
/// ldmatrix.b4x16_p64 reads them: 32 bytes of a row are a stage.
template <bool Spread>
class CodeLoader {
 public:
  /// `first`: the tile's first row in memory; thread t copies from rows row_of(t / 4 + 32 i),
  /// counted from there.
  template <class RowOf>
  __device__ CodeLoader(const std::uint8_t* first, std::int64_t row_bytes, bool wide, int thread,
                        RowOf&& row_of)
      : row_bytes_(static_cast<int>(row_bytes)),
        chunk_(thread % 4 * piece),
        to_(chunk_at(thread / 4, thread % 4)),
        wide_(wide) {
#pragma unroll
    for (int i = 0; i < 4; ++i) row_[i] = first + row_of(thread / 4 + 32 * i) * row_bytes + chunk_;
  }

  /// Stage `stage` of the rows, to the operand's part of a stage at shared address `to`. Whole:
  /// rows are `wide` and do not end before the stage does.
  template <bool Whole>
  __device__ void copy(int stage, std::uint32_t to) const {
    const int at = stage * (4 * piece);
    const int left = Whole ? piece : row_bytes_ - at - chunk_;
    const std::uint32_t target = to + static_cast<std::uint32_t>(to_);
    if (Spread || (!Whole && !wide_)) {
      const auto bytes = static_cast<std::uint32_t>(left < 0 ? 0 : left < 8 ? left : 8);
      const auto more = static_cast<std::uint32_t>(left < 8 ? 0 : left < 16 ? left - 8 : 8);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t row = target + static_cast<std::uint32_t>(i * 32 * stage_row_bytes);
        ptx::cp_async_ca_shared_global_8(row, row_[i] + at, bytes);
        if (!Spread) ptx::cp_async_ca_shared_global_8(row + 8, row_[i] + at + 8, more);
      }
    } else {
      const std::uint32_t bytes = left < 16 ? 0 : 16;  // a wide row is whole chunks
#pragma unroll
      for (int i = 0; i < 4; ++i)
        ptx::cp_async_cg_shared_global_16(
            target + static_cast<std::uint32_t>(i * 32 * stage_row_bytes), row_[i] + at, bytes);
    }
  }

 private:
  static constexpr int piece = Spread ? 8 : 16;
  int row_bytes_;
  const std::uint8_t* row_[4];
  int chunk_;  // byte of a stage's part of a row
  int to_;
  bool wide_;
};

// Scales of one operand, from memory to the registers that supply them to the matrix instructions:
// a word of four blocks of each of four rows a lane, one stage ahead. They do not go through shared
// memory: a tile of the 128x4 layout has a lane's words side by side.

class ScaleLoader {
 public:
  /// In tiles: `first` is the one of the rows with blocks 0 to 3, and the four words are at
  /// tile_offset(j), 0 and 1 side by side, as are 2 and 3. In rows: word j is of row row_of(j),
  /// whose scales begin that many times `blocks` behind `first`.
  template <class TileOffset, class RowOf>
  __device__ ScaleLoader(const std::uint8_t* first, int blocks, bool tiled, int align,
                         TileOffset&& tile_offset, RowOf&& row_of)
      : from_(first), blocks_(blocks), step_(tiled ? tile_step : 4), align_(align) {
#pragma unroll
    for (int j = 0; j < pieces; ++j)
      offset_[j] = static_cast<std::uint32_t>(tiled ? tile_offset(j) : row_of(j) * blocks);
  }

  /// Blocks 4 column to 4 column + 3 of the four rows; those beyond the row's end are 0. What is
  /// loaded in words is not waited for. Whole: in tiles, and the row has those blocks.
  template <bool Whole>
  __device__ void load(int column, std::uint32_t (&word)[pieces]) const {
    const int left = Whole ? 4 : blocks_ - 4 * column;
    const std::uint8_t* from =
        from_ + static_cast<std::int64_t>(column) * (Whole ? tile_step : step_);
    if (Whole || (left >= 4 && step_ == tile_step)) {
      const uint2 v0 = ptx::ld_global_nc_v2(from + offset_[0]);
      const uint2 v1 = ptx::ld_global_nc_v2(from + offset_[2]);
      word[0] = v0.x;
      word[1] = v0.y;
      word[2] = v1.x;
      word[3] = v1.y;
    } else if (left >= 4 && align_ == 4) {
#pragma unroll
      for (int j = 0; j < pieces; ++j) word[j] = ptx::ld_global_nc_b32(from + offset_[j]);
    } else if (left >= 4 && align_ == 2) {
#pragma unroll
      for (int j = 0; j < pieces; ++j) {
        const auto* halves = reinterpret_cast<const std::uint16_t*>(from + offset_[j]);
        word[j] = halves[0] | static_cast<std::uint32_t>(halves[1]) << 16;
      }
    } else {
#pragma unroll
      for (std::uint32_t& each : word) each = 0;
#pragma unroll 1
      for (int i = 0; i < 4 && i < left; ++i)
#pragma unroll
        for (int j = 0; j < pieces; ++j)
          word[j] |= static_cast<std::uint32_t>(from[offset_[j] + static_cast<std::uint32_t>(i)])
                     << 8 * i;
    }
  }

 private:
  static constexpr int tile_step = static_cast<int>(tiled_128x4::tile_bytes);
  const std::uint8_t* from_;
  std::uint32_t offset_[pieces];
  int blocks_;  // of a row
  int step_;    // bytes to the next four blocks
  int align_;   // of scales in rows: 4, 2 or 1
};

}  // namespace microscale::cuda::block_scaled
