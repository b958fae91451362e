// MXFP8, level 1: a thread block of one warp owns 8 rows and walks along all of K.
//
// Four lanes take a block, so the warp does one block of each of its 8 rows a step. With 16384 rows
// the grid is 2048 warps: 15 for a multiprocessor that can hold 64, each waiting for its own loads.
#include "chunk.cuh"
#include "ladder.hpp"

namespace levels {
namespace {

__global__ void loop_over_k(Args args) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * 8 + threadIdx.x / 4;
  const bool inside = row < args.rows;
  const auto* input =
      static_cast<const std::uint16_t*>(args.input) + (inside ? row : 0) * args.cols;
  for (std::int64_t block = 0; block < args.cols / block_elements; ++block) {
    const std::int64_t col = block * block_elements + threadIdx.x % 4 * chunk_elements;
    const uint4 v = microscale::ptx::ld_global_nc_no_allocate_v4(input + col);
    const std::uint32_t scale = ceil_scale(block_amax(v));
    if (!inside) continue;  // the shuffles above need all lanes
    store_codes(args, row, col, encode_chunk(v, scale));
    store_scale_byte(args, row, block, scale);
  }
}

}  // namespace

Level loop_over_k_level() {
  return {.name = "1 one loop over K",
          .kernel = reinterpret_cast<const void*>(loop_over_k),
          .threads = 32,
          .grid =
              [](std::int64_t rows, std::int64_t) {
                return Grid{ceil_div(rows, 8), 1};
              },
          .input = microscale::DType::bf16,
          .tiled = true};
}

}  // namespace levels
