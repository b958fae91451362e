// Which tile of d is next, for kernels whose blocks stay until all tiles are done: tile numbers run
// over the matrices, in one of them over bands of `band_rows` rows of a, in a band along n and,
// fastest, down the rows, so that blocks at work together share tiles of weights and few rows of a.
#pragma once

#include <cstdint>

#include "cuda/tile/product_output.cuh"
#include "cuda/wide_geometry.hpp"

namespace microscale::cuda {

/// A tile of d, and what it is made from.
struct WidePlace {
  std::int64_t matrix;
  MatrixRows rows;           // of the matrix
  std::int64_t row_tile;     // in the matrix
  std::int64_t column_tile;
};

template <int Rows, int Tokens>
class WideWalk {
 public:
  static constexpr WideShape shape{Rows, Tokens};
  static constexpr std::int64_t band = 2048 / Tokens;

  __device__ WideWalk(const ProductRows& rows, std::int64_t n, bool gated)
      : rows_(rows), columns_(wide_column_tiles(shape, n, gated)) {}

  /// False behind the last tile. All lanes of a warp ask for the same, never smaller, number.
  __device__ bool find(std::int64_t tile, WidePlace& place) {
    if (rows_.offsets == nullptr) {
      const std::int64_t each = wide_row_tiles(shape, rows_.m) * columns_;
      if (each == 0 || tile >= each * rows_.matrices) return false;
      place.matrix = tile / each;
      place.rows = rows_of_matrix(rows_, place.matrix);
      split(tile - place.matrix * each, place);
      return true;
    }
    const int lane = static_cast<int>(threadIdx.x & 31);
    for (; first_ < rows_.matrices; first_ += 32) {  // 32 experts, one a lane
      MatrixRows own{0, 0};
      if (first_ + lane < rows_.matrices) own = rows_of_matrix(rows_, first_ + lane);
      const std::int64_t tiles = wide_row_tiles(shape, own.count) * columns_;
      std::int64_t end = before_ + tiles;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const std::int64_t other = __shfl_up_sync(0xFFFFFFFFu, end, step);
        if (lane >= step) end += other - before_;
      }
      const unsigned behind = __ballot_sync(0xFFFFFFFFu, tile < end);
      if (behind != 0) {
        const int owner = __ffs(static_cast<int>(behind)) - 1;
        place.matrix = first_ + owner;
        place.rows = {__shfl_sync(0xFFFFFFFFu, own.first, owner),
                      __shfl_sync(0xFFFFFFFFu, own.count, owner)};
        split(tile - __shfl_sync(0xFFFFFFFFu, end - tiles, owner), place);
        return true;
      }
      before_ = __shfl_sync(0xFFFFFFFFu, end, 31);
    }
    return false;
  }

 private:
  __device__ void split(std::int64_t tile, WidePlace& place) const {
    const std::int64_t height = wide_row_tiles(shape, place.rows.count);
    const std::int64_t first = tile / (band * columns_) * band;
    const std::int64_t own = height - first < band ? height - first : band;
    const std::int64_t rest = tile - first * columns_;
    place.column_tile = rest / own;
    place.row_tile = first + rest - place.column_tile * own;
  }

  const ProductRows& rows_;
  std::int64_t columns_;
  std::int64_t first_ = 0, before_ = 0;  // experts passed, and their tiles
};

}  // namespace microscale::cuda
