// MXFP8, level 2: the same loop, but a thread block takes 256 columns and the grid covers K as
// well.
//
// 64 times as many thread blocks for K = 16384: a multiprocessor is full of short-lived warps (32,
// the most thread blocks it holds), and while some wait for memory others compute.
#include "chunk.cuh"
#include "ladder.hpp"

namespace levels {
namespace {

__global__ void grid_split_over_k(Args args) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * 8 + threadIdx.x / 4;
  const bool inside = row < args.rows;
  const auto* input =
      static_cast<const std::uint16_t*>(args.input) + (inside ? row : 0) * args.cols;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * tile_blocks;
  const std::int64_t last = min(first + tile_blocks, args.cols / block_elements);
  for (std::int64_t block = first; block < last; ++block) {
    const std::int64_t col = block * block_elements + threadIdx.x % 4 * chunk_elements;
    const uint4 v = microscale::ptx::ld_global_nc_no_allocate_v4(input + col);
    const std::uint32_t scale = ceil_scale(block_amax(v));
    if (!inside) continue;
    store_codes(args, row, col, encode_chunk(v, scale));
    store_scale_byte(args, row, block, scale);
  }
}

}  // namespace

Level grid_split_over_k_level() {
  return {.name = "2 grid split over K",
          .kernel = reinterpret_cast<const void*>(grid_split_over_k),
          .threads = 32,
          .grid =
              [](std::int64_t rows, std::int64_t cols) {
                return Grid{ceil_div(rows, 8), ceil_div(cols, tile_cols)};
              },
          .input = microscale::DType::bf16,
          .tiled = true};
}

}  // namespace levels
