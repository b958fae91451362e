// Which rows of which matrix a thread block's tile of d has, and in what order tiles are taken:
// tiles of a batch are as many for each matrix, those of a group are the experts' rows of 128x4
// scale tiles, and which those are is known on the device only.
#pragma once

#include <cstdint>

#include "cuda/matmul/args.hpp"

namespace microscale::cuda {

/// Where tile `number` of tiles_down x column_tiles is: bands of `band` row tiles, column by
/// column, so that what runs at a time shares rows of both operands in the second-level cache.
struct TileNumber {
  int down, column;
};
__device__ inline TileNumber tile_in_bands(int number, int tiles_down, int column_tiles, int band) {
  const int band_blocks = band * column_tiles, index = number / band_blocks;
  const int in_band = number - index * band_blocks;
  const int below = tiles_down - index * band, height = below < band ? below : band;
  return {index * band + in_band % height, in_band / height};
}

struct ProductTile {
  std::int64_t matrix;
  std::int64_t first;   // row of a, all matrices counted
  std::int64_t stored;  // the same row as store_product counts it
  int rows;             // that there are of the tile; 0: none
};

/// Row tile `index` of `rows`; `height` rows each (of a group: 128), `each` tiles a matrix of a
/// batch. A whole warp calls it, with the same arguments.
__device__ inline ProductTile product_tile(const ProductRows& rows, int index, int height,
                                           int each) {
  const auto part = [&](std::int64_t matrix, MatrixRows of, std::int64_t tile) -> ProductTile {
    const std::int64_t at = tile * height, left = of.count - at;
    const bool grouped = rows.expert_rows != nullptr;
    return {matrix, of.first + at, grouped ? of.first + at : at,
            static_cast<int>(left < height ? left : height)};
  };
  if (rows.expert_rows == nullptr) {
    const int matrix = index / each;
    return part(matrix, rows_of_matrix(rows, matrix), index - matrix * each);
  }
  const int lane = static_cast<int>(threadIdx.x % 32);
  std::int64_t before = 0;  // tiles of the experts looked at
  for (std::int64_t first = 0; first < rows.matrices; first += 32) {
    const std::int64_t expert = first + lane;
    const MatrixRows of = expert < rows.matrices ? rows_of_matrix(rows, expert) : MatrixRows{0, 0};
    const int tiles = expert < rows.matrices ? static_cast<int>(scale_tile_rows(rows, of)) : 0;
    int sum = tiles;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += other;
    }
    const bool mine = index >= before + sum - tiles && index < before + sum;
    const unsigned found = __ballot_sync(0xffffffffu, mine);
    if (found != 0) {
      const int from = __ffs(static_cast<int>(found)) - 1;
      const std::int64_t expert_found = first + from;
      const std::int64_t tile = index - before - __shfl_sync(0xffffffffu, sum - tiles, from);
      return part(expert_found, rows_of_matrix(rows, expert_found), tile);
    }
    before += __shfl_sync(0xffffffffu, sum, 31);
  }
  return {0, 0, 0, 0};
}

}  // namespace microscale::cuda
