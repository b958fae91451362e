// Transposing a matrix of FP32: the same bytes read and written, in ways that differ only in which
// addresses the 32 lanes of a warp touch together.
//
// copy         no transpose at all: what the harness and the memory allow.
// naive        reads along a row: 32 neighbours, 128 bytes, 4 sectors of 32 bytes. Writes down a
// column:
//              32 sectors of which 4 bytes each are used.
// tiled        reads a 32 x 32 tile along rows into shared memory and writes it along rows of the
//              output: 4 sectors each way. Reading the tile by columns is the new price: with rows
//              of 32 words all lanes meet the same bank and queue, 32 deep.
// tiled, 33    a row of 33 words (132 bytes) puts the next row one bank further: no two lanes meet.
//
// The PTX of the second shows the 33 as a multiplication by 132, and `tile` itself as `.shared
// .align 4 .b8 ...[4224]`: shared arrays are declared in PTX like any other.
#include <vector>

#include "../level.hpp"
#include "ladder.hpp"

namespace levels {
namespace {

constexpr int side = 32;

__device__ const float* input_of(const Args& args) { return static_cast<const float*>(args.input); }
__device__ float* output_of(const Args& args) { return reinterpret_cast<float*>(args.codes); }

__global__ void copy(Args args) {
  const std::int64_t four = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (four * 4 < args.rows * args.cols)
    reinterpret_cast<float4*>(args.codes)[four] = static_cast<const float4*>(args.input)[four];
}

__global__ void naive(Args args) {
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * side + threadIdx.x % side;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * side + threadIdx.x / side;
  if (col < args.cols && row < args.rows)
    output_of(args)[col * args.rows + row] = input_of(args)[row * args.cols + col];
}

/// `Threads` / 32 rows of the tile at a time.
template <int Pitch, int Threads>
__global__ void tiled(Args args) {
  __shared__ float tile[side][Pitch];
  const int x = threadIdx.x % side, y = threadIdx.x / side;
  const std::int64_t first_col = static_cast<std::int64_t>(blockIdx.x) * side;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * side;
#pragma unroll
  for (int r = y; r < side; r += Threads / side)
    if (first_col + x < args.cols && first_row + r < args.rows)
      tile[r][x] = input_of(args)[(first_row + r) * args.cols + first_col + x];
  __syncthreads();  // the tile is whole before anybody reads what another wrote
#pragma unroll
  for (int r = y; r < side; r += Threads / side)
    if (first_row + x < args.rows && first_col + r < args.cols)
      output_of(args)[(first_col + r) * args.rows + first_row + x] = tile[x][r];
}

Level level(const char* name, void (*kernel)(Args), int threads) {
  return {.name = name,
          .kernel = reinterpret_cast<const void*>(kernel),
          .threads = threads,
          .grid = [](std::int64_t rows, std::int64_t cols) {
            return Grid{ceil_div(cols, side), ceil_div(rows, side)};
          }};
}

}  // namespace

Level copy_level() {
  return {.name = "copy, 16 bytes a thread",
          .kernel = reinterpret_cast<const void*>(copy),
          .threads = 256,
          .grid = [](std::int64_t rows, std::int64_t cols) {
            return Grid{ceil_div(rows * cols, 4 * 256), 1};
          }};
}

std::vector<Level> transpose_levels() {
  return {level("naive", naive, 1024), level("tiled, rows of 32", tiled<32, 1024>, 1024),
          level("tiled, rows of 33", tiled<33, 1024>, 1024),
          level("tiled, rows of 33, 4 elements a thread", tiled<33, 256>, 256)};
}

}  // namespace levels
