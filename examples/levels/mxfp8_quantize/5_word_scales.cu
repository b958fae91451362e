// MXFP8, levels 5 and 6: level 4, with the scales of four neighbouring blocks stored as one word.
//
// A byte store occupies a 32-byte sector and an instruction for one byte. All four lanes of a block
// know its scale, so the word needs no exchange: it is collected over four turns of the loop. A
// word may only be stored at a multiple of 4: always so in 128x4 tiles, and in row-major scales
// where K is a multiple of 128; the guard falls back to bytes.
//
// Level 5 has 32 threads, and 64 or 128 to compare with; row-major to show what repacking costs;
// level 6 rotates odd rows in shared memory. Two rows' chunks start on the same bank, as a row is
// 512 bytes, so a read of eight lanes takes two turns; 64 bytes of rotation send the odd row to the
// other banks.
#include <vector>

#include "bulk_tile.cuh"
#include "ladder.hpp"

namespace levels {
namespace {

template <bool Tiled>
__device__ void store_four(const Args& args, std::int64_t row, std::int64_t block, int count,
                           std::uint32_t word) {
  std::uint8_t* place = scale_place<Tiled>(args, row, block);
  if (count == 4 && reinterpret_cast<std::uintptr_t>(place) % 4 == 0) {
    microscale::ptx::st_global_b32(place, word);
  } else {
    for (int i = 0; i < count; ++i) place[i] = static_cast<std::uint8_t>(word >> (8 * i));
  }
}

template <int Threads, bool Tiled, bool Rotated>
__global__ void word_scales(Args args) {
  constexpr int rows = Threads / 4;
  __shared__ alignas(128) BulkTile<rows> tile;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * rows;
  const std::int64_t first_col = static_cast<std::int64_t>(blockIdx.y) * tile_cols;
  load_tile<Rotated>(args, tile, first_row, first_col);

  const int tile_row = threadIdx.x / 4;
  const std::int64_t row = first_row + tile_row, blocks = args.cols / block_elements;
  for (int four = 0; four < tile_blocks; four += 4) {
    std::uint32_t word = 0;
    for (int b = four; b < four + 4; ++b) {
      const int chunk = b * 4 + threadIdx.x % 4;
      const std::int64_t col = first_col + chunk * chunk_elements;
      const uint4 v = tile.chunks[tile_row][rotated<Rotated>(tile_row, chunk)];
      const std::uint32_t scale = ceil_scale(block_amax(v));
      if (row >= args.rows || col >= args.cols) continue;
      store_codes(args, row, col, encode_chunk(v, scale));
      word |= scale << (8 * (b - four));
    }
    const std::int64_t block = first_col / block_elements + four;
    if (threadIdx.x % 4 == 0 && row < args.rows && block < blocks)
      store_four<Tiled>(args, row, block, static_cast<int>(min(blocks - block, std::int64_t{4})),
                        word);
  }
}

template <int Threads, bool Tiled, bool Rotated>
Level level(const char* name) {
  return {.name = name,
          .kernel = reinterpret_cast<const void*>(word_scales<Threads, Tiled, Rotated>),
          .threads = Threads,
          .grid =
              [](std::int64_t rows, std::int64_t cols) {
                return Grid{ceil_div(rows, Threads / 4), ceil_div(cols, tile_cols)};
              },
          .input = microscale::DType::bf16,
          .tiled = Tiled};
}

}  // namespace

std::vector<Level> word_scales_levels() {
  return {level<32, true, false>("5 32-bit scale stores"),
          level<64, true, false>("5 with 64 threads"),
          level<128, true, false>("5 with 128 threads"),
          level<32, true, true>("6 rotated shared memory"),
          level<128, true, true>("6 with 128 threads")};
}

Level row_major_level() { return level<128, false, false>("5 with 128 threads, row-major scales"); }

}  // namespace levels
