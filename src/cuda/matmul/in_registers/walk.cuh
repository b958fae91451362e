// Which tile of d is next, for kernels whose blocks stay until all tiles are done: tile numbers run
// over the matrices, in one of them over bands of 2048 rows of a, in a band along n and,
// fastest, down the rows, so that blocks at work together share tiles of weights and few rows of a.
//
// Where products of a tile are as many as its rows want (WideShape::token_step), an expert's last
// rows are a smaller tile. All experts' largest tiles come first then, and the smallest last, so
// that blocks that are through with theirs find something small to do.
#pragma once

#include <cstdint>

#include "cuda/matmul/matrix_rows.cuh"
#include "cuda/matmul/in_registers/plan.hpp"

namespace microscale::cuda {

/// A tile of d, and what it is made from. There are fewer than 2^31 tiles and matrices.
struct WidePlace {
  std::uint32_t matrix;
  std::uint32_t row_tile, column_tile;  // in the matrix
  MatrixRows rows;                      // of the matrix
};

template <int Rows, int Tokens>
class WideWalk {
 public:
  static constexpr WideShape shape = wide_shape(Rows, Tokens);
  static constexpr std::uint32_t band = 2048 / Tokens;
  static constexpr int sizes = shape.token_sizes();

  __device__ WideWalk(const ProductRows& rows, std::int64_t n, bool gated)
      : rows_(rows), columns_(static_cast<std::uint32_t>(wide_column_tiles(shape, n, gated))) {}

  /// Experts: finds how many tiles of each size they have, wanted before anything of them, once.
  /// All lanes of a warp ask.
  __device__ void count() {
#pragma unroll 4
    for (std::int64_t matrix = threadIdx.x & 31; matrix < rows_.matrices; matrix += 32) {
      const std::int64_t rows = rows_of_matrix(rows_, matrix).count;
#pragma unroll
      for (int size = 0; size < sizes; ++size) of_size_[size] += height_of(rows, size) * columns_;
    }
#pragma unroll
    for (std::uint32_t& tiles : of_size_)
#pragma unroll
      for (int apart = 1; apart < 32; apart *= 2)
        tiles += __shfl_xor_sync(0xFFFFFFFFu, tiles, apart);
  }
  /// Of all experts, as counted.
  __device__ std::uint32_t tiles() const {
    std::uint32_t sum = 0;
    for (const std::uint32_t tiles : of_size_) sum += tiles;
    return sum;
  }

  /// False behind the last tile. All lanes of a warp ask for the same number; experts passed are
  /// remembered while numbers of a size grow.
  __device__ bool find(std::uint32_t tile, WidePlace& place) {
    if (rows_.expert_rows == nullptr) {
      const std::uint32_t each = height(rows_.m) * columns_;
      if (each == 0) return false;
      place.matrix = tile / each;
      if (place.matrix >= rows_.matrices) return false;
      place.rows = rows_of_matrix(rows_, place.matrix);
      split(tile - place.matrix * each, height(rows_.m), place);
      return true;
    }
    int size = sizes == 1 ? 0 : sizes;
    if constexpr (sizes > 1) {
#pragma unroll
      for (int i = 0; i < sizes; ++i) {
        if (size < sizes) continue;
        if (tile < of_size_[i])
          size = i;
        else
          tile -= of_size_[i];
      }
      if (size == sizes) return false;
    }
    // Another size's, or nearer the beginning: a share is taken from its end.
    if (tile < before_ || size != size_) first_ = 0, before_ = 0, size_ = size;
    const int lane = static_cast<int>(threadIdx.x & 31);
    for (; first_ < rows_.matrices; first_ += 32) {  // 32 experts, one a lane
      MatrixRows own{0, 0};
      if (first_ + lane < rows_.matrices) own = rows_of_matrix(rows_, first_ + lane);
      const std::uint32_t tiles = height_of(own.count, size) * columns_;
      std::uint32_t sum = tiles;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const std::uint32_t other = __shfl_up_sync(0xFFFFFFFFu, sum, step);
        if (lane >= step) sum += other;
      }
      const unsigned behind = __ballot_sync(0xFFFFFFFFu, tile < before_ + sum);
      if (behind != 0) {
        const int owner = __ffs(static_cast<int>(behind)) - 1;
        place.matrix = first_ + owner;
        place.rows = rows_of_matrix(rows_, place.matrix);
        split(tile - before_ - __shfl_sync(0xFFFFFFFFu, sum - tiles, owner),
              height_of(place.rows.count, size), place);
        if (size > 0) place.row_tile += static_cast<std::uint32_t>(place.rows.count / Tokens);
        return true;
      }
      before_ += __shfl_sync(0xFFFFFFFFu, sum, 31);
    }
    return false;
  }

 private:
  __device__ static std::uint32_t height(std::int64_t rows) {
    return static_cast<std::uint32_t>(wide_row_tiles(shape, rows));
  }
  /// Of the tiles of a size: the largest are 0.
  __device__ static std::uint32_t height_of(std::int64_t rows, int size) {
    if constexpr (sizes == 1) return height(rows);
    const auto left = static_cast<int>(rows % Tokens);
    const bool last = left > 0 && (Tokens - left) / shape.token_step() == size;
    return (size == 0 ? static_cast<std::uint32_t>(rows / Tokens) : 0) + (last ? 1 : 0);
  }
  /// `height`: row tiles of the matrix, or of those of a size.
  __device__ void split(std::uint32_t tile, std::uint32_t height, WidePlace& place) const {
    const std::uint32_t first = tile / (band * columns_) * band;
    const std::uint32_t own = height - first < band ? height - first : band;
    const std::uint32_t rest = tile - first * columns_;
    place.column_tile = rest / own;
    place.row_tile = first + rest - place.column_tile * own;
  }

  const ProductRows& rows_;
  std::uint32_t columns_;
  std::uint32_t of_size_[sizes] = {};  // tiles
  int size_ = 0;
  std::uint32_t first_ = 0, before_ = 0;  // experts passed, and their tiles of that size
};

}  // namespace microscale::cuda
