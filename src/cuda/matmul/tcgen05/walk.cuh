// The tiles of d that a thread block makes, one after the other. Each role of its warps goes
// through them by itself.
#pragma once

#include <cstdint>

#include "cuda/matmul/product_tile.cuh"
#include "cuda/matmul/tcgen05/args.hpp"

namespace microscale::cuda::tcgen05 {

template <int Rows, int Columns>
class TileWalk {
 public:
  static constexpr unsigned blocks = TileShape{Rows, Columns}.blocks();
  __device__ static unsigned rank() { return blockIdx.x % blocks; }

  __device__ explicit TileWalk(const MatmulTcgen05Args& args)
      : args_(args), number_(static_cast<int>(blockIdx.x / blocks)) {}

  /// The next tile that has rows; a whole warp calls it.
  __device__ bool next() {
    const int all = args_.tiles_down * args_.column_tiles,
              step = static_cast<int>(gridDim.x / blocks);
    while (number_ < all) {
      const TileNumber at =
          tile_in_bands(number_, args_.tiles_down, args_.column_tiles, band_tiles);
      number_ += step;
      rows = product_tile(args_.rows, at.down, Rows, args_.matrix_tiles_down);
      if (rows.rows <= 0) continue;
      scale_row_tile = at.down;
      if constexpr (blocks > 1) take_own_rows(at.down);
      first_column = at.column * (args_.output.gated ? Columns / 2 : Columns);
      ++index;
      return true;
    }
    return false;
  }

  ProductTile rows{};      // this block's; of a pair they may be none, though the other has some
  int scale_row_tile = 0;  // where their scales are among those of a
  int first_column = 0;    // of d
  int index = -1;          // of this block's tiles

 private:
  /// Of a pair's; there are no experts.
  __device__ void take_own_rows(int down) {
    const int before = block_rows * static_cast<int>(rank());
    rows.first += before;
    rows.stored += before;
    rows.rows = rows.rows - before < block_rows ? rows.rows - before : block_rows;
    const int of_matrix =
        down % args_.matrix_tiles_down * static_cast<int>(blocks) + static_cast<int>(rank());
    const int last = args_.matrix_row_tiles - 1;  // its scales stand for those there are not
    scale_row_tile = down / args_.matrix_tiles_down * args_.matrix_row_tiles +
                     (of_matrix < last ? of_matrix : last);
  }

  const MatmulTcgen05Args& args_;
  int number_;
};

}  // namespace microscale::cuda::tcgen05
