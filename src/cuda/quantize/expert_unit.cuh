// Which expert a unit of rows belongs to, where many experts' rows are quantized by one launch: a
// thread block finds it by summing up the experts' units, 256 at a time.
#pragma once

#include <cstdint>

#include "cuda/block/row_exchange.cuh"
#include "cuda/quantize/plan.hpp"
#include "layouts/grouped.hpp"

namespace microscale::cuda {

/// Rows [begin, begin + rows) of the input, an expert's, and where this thread block is in them.
struct ExpertUnit {
  std::int64_t expert, begin, rows;
  std::int64_t first_unit;  // of the expert, counted over all experts
  bool found;
};

/// The expert that `unit` falls to. Tiled: units count through the experts' regions of scales. All
/// threads of the block call it.
template <bool Tiled>
__device__ ExpertUnit find_expert(const ExpertRowTiles& args, std::int64_t matrix_rows,
                                  std::int64_t unit) {
  constexpr int warps = threads_per_block / 32;
  __shared__ std::int64_t warp_units[warps];
  __shared__ ExpertUnit result;
  const int lane = static_cast<int>(threadIdx.x & 31), warp = static_cast<int>(threadIdx.x >> 5);
  const int padding = Tiled ? 128 : args.rows_per_unit;
  if (threadIdx.x == 0) result = {};  // all of it: it is returned whole
  std::int64_t before = 0;            // units of the experts of former rounds
  for (std::int64_t first = 0; first < args.experts; first += threads_per_block) {
    const std::int64_t expert = first + threadIdx.x;
    grouped::RowSpan own{0, 0};
    std::int64_t reserved = 0;  // rows that it has units for
    if (expert < args.experts) {
      own = grouped::rows_of_expert(
          {args.numbers, args.wide_numbers != 0, args.capacity, matrix_rows}, expert);
      reserved = Tiled ? grouped::region_rows(args.capacity, own.count) : own.count;
    }
    const std::int64_t units =
        grouped::tile_rows(reserved, padding) * static_cast<unsigned>(padding / args.rows_per_unit);
    std::int64_t sum = units;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const std::int64_t other = __shfl_up_sync(whole_warp, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane == 31) warp_units[warp] = sum;
    __syncthreads();
    std::int64_t total = before;
#pragma unroll
    for (int i = 0; i < warps; ++i) {
      if (i == warp) sum += total;
      total += warp_units[i];
    }
    if (unit < sum && unit >= sum - units)
      result = {expert, own.first, own.count, sum - units, true};
    __syncthreads();
    if (unit < total) break;
    before = total;
  }
  return result;
}

}  // namespace microscale::cuda
