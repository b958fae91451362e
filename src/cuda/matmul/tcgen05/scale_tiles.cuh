// Scales in rows to the 128x4 tiles that tensor memory takes, of any rows of a product: a batch's,
// or experts', each matrix beginning with a tile of its own.
#pragma once

#include <cstdint>

#include "cuda/matmul/product_tile.cuh"
#include "cuda/matmul/tcgen05/args.hpp"

namespace microscale::cuda::tcgen05 {

/// Thread block (x, y): 128 rows, those of row tile x, and tiles 8 y to 8 y + 7 along k. Thread t:
/// word t % 128 of four of the latter. Padding becomes 0.
__device__ inline void write_scale_tiles(const ScaleTilesArgs& args) {
  const ProductTile own =
      product_tile(args.rows, static_cast<int>(blockIdx.x), block_rows, args.matrix_tiles_down);
  constexpr int tile_bytes = static_cast<int>(tiled_128x4::tile_bytes);
  const int word = static_cast<int>(threadIdx.x % 128), line = word % 4 * 32 + word / 4;
  if (own.rows <= 0) return;
  const bool here = line < own.rows;
  const int all = (args.blocks + 3) / 4,
            first = static_cast<int>(blockIdx.y * 8 + threadIdx.x / 128 * 4);
  const std::uint8_t* from = args.scales + (own.first + line) * args.blocks + 4 * first;
  std::uint8_t* to = args.tiles + (std::int64_t{blockIdx.x} * all + first) * tile_bytes + 4 * word;
#pragma unroll
  for (int i = 0; i < 4; ++i, from += 4, to += tile_bytes) {
    const int left = args.blocks - 4 * (first + i);
    if (left <= 0) return;
    std::uint32_t bytes = 0;
    if (here && left >= 4 && args.words) {
      bytes = *reinterpret_cast<const std::uint32_t*>(from);
    } else if (here) {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (j < left) bytes |= std::uint32_t{from[j]} << 8 * j;
    }
    *reinterpret_cast<std::uint32_t*>(to) = bytes;
  }
}

}  // namespace microscale::cuda::tcgen05
