// One tile from global to shared memory by the copy engine: a few threads each tell an mbarrier how
// many bytes of a row will come and start that row's copy, and everybody waits for the barrier
// once.
//
// (With a tensor map the tile would be one instruction. A copy of a row needs no map, and the rows
// arrive on the same barrier.)
#pragma once

#include "chunk.cuh"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/mbarrier.cuh"

namespace levels {

inline constexpr int row_chunks = tile_cols / chunk_elements;

template <int Rows>
struct BulkTile {
  uint4 chunks[Rows][row_chunks];
  std::uint64_t mbarrier;
};

/// With Rotated, odd rows start four chunks (64 bytes) further on and wrap around.
template <bool Rotated>
__device__ int rotated(int row, int chunk) {
  return Rotated ? (chunk + row % 2 * 4) % row_chunks : chunk;
}

/// Rows of the tile that lie in the matrix; the rest of the buffer is left as it is.
template <bool Rotated, int Rows>
__device__ void load_tile(const Args& args, BulkTile<Rows>& tile, std::int64_t first_row,
                          std::int64_t first_col) {
  using namespace microscale;
  const auto shared = [](const void* p) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
  };
  const std::int64_t cols_left = args.cols - first_col, rows_left = args.rows - first_row;
  const auto row_bytes =
      static_cast<std::uint32_t>(cols_left < tile_cols ? cols_left : tile_cols) * 2;
  const int rows = rows_left < Rows ? static_cast<int>(rows_left) : Rows;
  const std::uint32_t mbarrier = shared(&tile.mbarrier);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init_shared(mbarrier, static_cast<std::uint32_t>(rows));
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x);
  if (row < rows) {
    ptx::mbarrier_arrive_expect_tx(mbarrier, row_bytes);
    const auto* from =
        static_cast<const std::uint16_t*>(args.input) + (first_row + row) * args.cols + first_col;
    // A rotated row whose end would not fit comes in two pieces.
    const bool wraps = Rotated && row % 2 == 1 && row_bytes > sizeof(uint4) * (row_chunks - 4);
    const std::uint32_t first = wraps ? sizeof(uint4) * (row_chunks - 4) : row_bytes;
    ptx::cp_async_bulk_shared_cluster_global_mbarrier(
        shared(&tile.chunks[row][rotated<Rotated>(row, 0)]), from, first, mbarrier);
    if (wraps)
      ptx::cp_async_bulk_shared_cluster_global_mbarrier(
          shared(&tile.chunks[row][0]), from + first / 2, row_bytes - first, mbarrier);
  }
  while (!ptx::mbarrier_try_wait_parity(mbarrier, 0)) {
  }
}

}  // namespace levels
