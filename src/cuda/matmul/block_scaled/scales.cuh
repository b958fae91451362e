// Scales of one operand, from memory to the registers that supply them to the matrix instructions:
// a word of four blocks of each of four rows a lane, one stage ahead. They do not go through shared
// memory: a tile of the 128x4 layout has a lane's words side by side.
#pragma once

#include <cstdint>

#include "cuda/ptx/memory.cuh"
#include "cuda/matmul/block_scaled/place.cuh"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda::block_scaled {

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
