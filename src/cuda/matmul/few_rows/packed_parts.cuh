// The order in which packed_kernel.cuh goes through matrices and rows of a. A part is a matrix and
// up to units_rows of its rows; a matrix with more rows is several parts. Row tiles of the weights
// are counted through all parts.
#pragma once

#include <cstdint>

#include "cuda/matmul/args.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/matmul/few_rows/plan.hpp"
#include "cuda/matmul/matrix_rows.cuh"
#include "layouts/grouped.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda::few_rows {

struct Part {
  std::int64_t matrix, done;  // `done` of its rows of a are in parts before
  std::int64_t scale_tiles_before;
};

class Parts {
 public:
  /// `base`: of the block's shared memory.
  __device__ Parts(const PackedArgs& args, std::uint32_t base)
      : args_(args), rows_(args.rows), list_(base + args.shared.parts) {}

  /// Where there are experts, all threads call it before anything else. Lists the parts in shared
  /// memory, at most most_parts: {expert | turn of this expert << 16, rows of 128x4 tiles that the
  /// scales of the experts in front take}. Returns how many parts there are.
  __device__ std::uint32_t list() const {
    __shared__ std::uint32_t count;
    if (threadIdx.x < 32) {
      const std::uint32_t lane = threadIdx.x;
      std::uint32_t before = 0, tiles_before = 0;
      for (std::int64_t first = 0; first < rows_.matrices; first += 32) {
        const std::int64_t expert = first + lane;
        const bool exists = expert < rows_.matrices;
        const MatrixRows rows = exists ? rows_of_matrix(rows_, expert) : MatrixRows{0, 0};
        const std::uint32_t own = passes(rows.count);
        const std::uint32_t tiles =
            exists ? static_cast<std::uint32_t>(scale_tile_rows(rows_, rows)) : 0;
        std::uint32_t upto = own, tiles_upto = tiles;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
          const std::uint32_t other = __shfl_up_sync(0xFFFFFFFFu, upto, d),
                              others = __shfl_up_sync(0xFFFFFFFFu, tiles_upto, d);
          if (static_cast<int>(lane) >= d) upto += other, tiles_upto += others;
        }
        const auto in_front = static_cast<std::uint32_t>(
            scale_tiles_before(rows_, rows, tiles_before + tiles_upto - tiles));
        for (std::uint32_t i = 0; i < own; ++i) {
          const std::uint32_t index = before + upto - own + i;
          if (index < most_parts)
            ptx::st_shared_v2(list_ + 8 * index, static_cast<std::uint32_t>(expert) | i << 16,
                              in_front);
        }
        before += __shfl_sync(0xFFFFFFFFu, upto, 31);
        tiles_before += __shfl_sync(0xFFFFFFFFu, tiles_upto, 31);
      }
      if (lane == 0) count = before < most_parts ? before : most_parts;
    }
    __syncthreads();
    return count;
  }

  __device__ Part at(std::uint32_t index) const {
    if (rows_.expert_rows != nullptr) {
      const uint2 found = ptx::ld_shared_v2(list_ + 8 * index);
      return {found.x & 0xFFFFu, std::int64_t{found.x >> 16} * args_.units_rows, found.y};
    }
    const std::uint32_t matrix = args_.by_parts_of_each.divide(static_cast<int>(index));
    return {matrix, std::int64_t{index - matrix * args_.parts_of_each} * args_.units_rows,
            matrix * grouped::tile_rows(rows_.m, tiled_128x4::tile_lines)};
  }
  /// Number of the part that has this row tile.
  __device__ std::uint32_t index_of(std::uint32_t row_tile) const {
    return args_.by_row_tiles.divide(static_cast<int>(row_tile));
  }

 private:
  __device__ std::uint32_t passes(std::int64_t rows) const {
    const auto units_rows = static_cast<std::uint32_t>(args_.units_rows);
    return (static_cast<std::uint32_t>(rows) + units_rows - 1) / units_rows;
  }

  const PackedArgs& args_;
  const ProductRows& rows_;
  const std::uint32_t list_;
};

}  // namespace microscale::cuda::few_rows
