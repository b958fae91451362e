// MXFP8, level 3: tiles of 8 rows x 256 columns go to shared memory by cp.async, several on their
// way while one is quantized.
//
// A thread block goes through 8 tiles along K with 2, 3 or 4 buffers of 4 KiB. Every thread issues
// eight 16-byte copies a tile, counts its groups, and meets the others twice a tile: that is the
// price.
#include <vector>

#include "chunk.cuh"
#include "cuda/ptx/async_copy.cuh"
#include "ladder.hpp"

namespace levels {
namespace {

using namespace microscale;

constexpr int tiles_each = 8;
constexpr int row_chunks = tile_cols / chunk_elements;  // 32: one a lane, so a copy is a whole row

using Tile = uint4[8][row_chunks];

/// Starts the copies of one tile. Chunks outside the matrix are not copied; their codes are
/// not stored.
__device__ void start_copies(const Args& args, Tile& tile, std::int64_t first_row,
                             std::int64_t first_col) {
  const std::int64_t col = first_col + threadIdx.x * chunk_elements;
  for (int r = 0; r < 8; ++r)
    if (first_row + r < args.rows && col < args.cols)
      ptx::cp_async_cg_shared_global_16(
          static_cast<std::uint32_t>(__cvta_generic_to_shared(&tile[r][threadIdx.x])),
          static_cast<const std::uint16_t*>(args.input) + (first_row + r) * args.cols + col);
}

template <int stages>
__global__ void cp_async_stages(Args args) {
  __shared__ Tile buffers[stages];
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * 8;
  const std::int64_t row = first_row + threadIdx.x / 4;
  const std::int64_t first_tile = static_cast<std::int64_t>(blockIdx.y) * tiles_each;
  for (int t = 0; t < stages - 1; ++t) {
    start_copies(args, buffers[t], first_row, (first_tile + t) * tile_cols);
    ptx::cp_async_commit_group();
  }
  for (int t = 0; t < tiles_each; ++t) {
    if (t + stages - 1 < tiles_each)
      start_copies(args, buffers[(t + stages - 1) % stages], first_row,
                   (first_tile + t + stages - 1) * tile_cols);
    ptx::cp_async_commit_group();  // empty at the end, so that the count below stays the same
    ptx::cp_async_wait_group<stages - 1>();
    __syncthreads();  // everybody's copies of tile t have arrived
    for (int b = 0; b < tile_blocks; ++b) {
      const std::int64_t block = (first_tile + t) * tile_blocks + b;
      const int chunk = b * 4 + threadIdx.x % 4;
      const uint4 v = buffers[t % stages][threadIdx.x / 4][chunk];
      const std::uint32_t scale = ceil_scale(block_amax(v));
      if (row >= args.rows || block * block_elements >= args.cols) continue;
      store_codes(args, row, (first_tile + t) * tile_cols + chunk * chunk_elements,
                  encode_chunk(v, scale));
      store_scale_byte(args, row, block, scale);
    }
    __syncthreads();  // the buffer may be filled again
  }
}

template <int stages>
Level level(const char* name) {
  return {.name = name,
          .kernel = reinterpret_cast<const void*>(cp_async_stages<stages>),
          .threads = 32,
          .grid =
              [](std::int64_t rows, std::int64_t cols) {
                return Grid{ceil_div(rows, 8), ceil_div(cols, tile_cols * tiles_each)};
              },
          .input = DType::bf16,
          .tiled = true};
}

}  // namespace

std::vector<Level> cp_async_stages_levels() {
  return {level<2>("3 cp.async, 2 stages"), level<3>("3 cp.async, 3 stages"),
          level<4>("3 cp.async, 4 stages")};
}

}  // namespace levels
