// MXFP8, level 4: one tile a thread block again, brought by the copy engine.
//
// No thread touches an address of the input: eight of them start a row each, all wait once, and the
// loop below reads shared memory only. There is no ring of buffers; other thread blocks are the
// ring.
#include "bulk_tile.cuh"
#include "ladder.hpp"

namespace levels {
namespace {

__global__ void bulk_load(Args args) {
  __shared__ alignas(128) BulkTile<8> tile;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * 8;
  const std::int64_t first_col = static_cast<std::int64_t>(blockIdx.y) * tile_cols;
  load_tile<false>(args, tile, first_row, first_col);

  const std::int64_t row = first_row + threadIdx.x / 4;
  for (int b = 0; b < tile_blocks; ++b) {
    const int chunk = b * 4 + threadIdx.x % 4;
    const std::int64_t col = first_col + chunk * chunk_elements;
    const uint4 v = tile.chunks[threadIdx.x / 4][chunk];
    const std::uint32_t scale = ceil_scale(block_amax(v));
    if (row >= args.rows || col >= args.cols) continue;
    store_codes(args, row, col, encode_chunk(v, scale));
    store_scale_byte(args, row, col / block_elements, scale);
  }
}

}  // namespace

Level bulk_load_level() {
  return {.name = "4 bulk load",
          .kernel = reinterpret_cast<const void*>(bulk_load),
          .threads = 32,
          .grid =
              [](std::int64_t rows, std::int64_t cols) {
                return Grid{ceil_div(rows, 8), ceil_div(cols, tile_cols)};
              },
          .input = microscale::DType::bf16,
          .tiled = true};
}

}  // namespace levels
