// Brings rows of a to shared memory for packed_kernel.cuh, 16 bits an element, `pitch` bytes from
// row to row. Each block brings its part of k, element after element as in memory; ldmatrix brings
// them into the order of instructions.
//
// Elements of 16 bits stay as they are; rows at multiples of 16 bytes come by bulk copies. Rows of
// NVFP4 become BF16. A piece is 16 bytes, eight elements.
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"
#include "cuda/matmul/args.hpp"
#include "cuda/matmul/fallback/prepare.cuh"
#include "cuda/matmul/few_rows/args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"
#include "layouts/grouped.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda::few_rows {

/// Where a slot of a warp's sums has the two that a thread adds to those of other warps, in bytes:
/// `low` and `high` are weight rows g and g + 8, by row `row` of a.
struct SumPlace {
  std::uint32_t low, high, row, g;
};

/// Rows [first, first + count) of a, of which the first is row `row` of its matrix; elements
/// [column, column + 16 * steps) of each. Row i goes to base + i * pitch; elements beyond k are
/// zeros there.
struct UnitsSlice {
  std::int64_t first, row;
  std::int64_t scale_tiles_before;  // rows of 128x4 tiles of the matrices in front
  std::int64_t k;
  int count, column, steps;
  std::uint32_t base, pitch;

  __device__ std::uint32_t at(int row_of_slice, int piece) const {
    return base + row_of_slice * pitch + 16 * piece;
  }
  /// Steps of 16 elements of this slice that are within k.
  __device__ int own_steps() const {
    const std::int64_t left = k - column;
    return left >= 16 * std::int64_t{steps} ? steps : static_cast<int>(left / 16);
  }
};

__device__ inline const std::uint16_t* dense_row(const Args& args, std::int64_t row) {
  return reinterpret_cast<const std::uint16_t*>(static_cast<const char*>(args.a.data) +
                                                row * args.a.stride);
}

/// Rows of 16-bit elements that may begin anywhere: read element by element.
struct ScatteredRows {
  const Args& args;
  const UnitsSlice& slice;

  __device__ uint4 operator()(int row, int piece) const {
    if (piece >= 2 * slice.own_steps()) return make_uint4(0, 0, 0, 0);
    const std::uint16_t* from = dense_row(args, slice.first + row) + slice.column + 8 * piece;
    std::uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = from[2 * i] | std::uint32_t{from[2 * i + 1]} << 16;
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
};

/// Rows of 16-bit elements at multiples of 16 bytes: bulk copies bring them to their places.
struct CopiedRows {
  const UnitsSlice& slice;

  __device__ static bool serve(const Args& args) {
    return (reinterpret_cast<std::uintptr_t>(args.a.data) |
            static_cast<std::uint64_t>(args.a.stride)) %
               16 ==
           0;
  }
  /// Every warp copies its part of each row, so that no row waits behind another warp's weights.
  /// `barrier` has an arrival for each warp.
  __device__ static void start(const Args& args, const UnitsSlice& slice, std::uint32_t barrier) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int steps = slice.own_steps(), first = share_of_k(steps, warp, packed_warps_shift);
    const std::uint32_t bytes = 32 * (share_of_k(steps, warp + 1, packed_warps_shift) - first);
    if (ptx::elect_sync()) {
      ptx::mbarrier_arrive_expect_tx(barrier, slice.count * bytes);
      const std::uint16_t* from = dense_row(args, slice.first) + slice.column + 16 * first;
      for (int row = 0; row < slice.count && bytes > 0; ++row) {
        ptx::cp_async_bulk_shared_cluster_global_mbarrier(slice.at(row, 2 * first), from, bytes,
                                                          barrier);
        from = reinterpret_cast<const std::uint16_t*>(reinterpret_cast<const char*>(from) +
                                                      args.a.stride);
      }
    }
    __syncwarp();
  }
  __device__ uint4 operator()(int row, int piece) const {
    return piece < 2 * slice.own_steps() ? ptx::ld_shared_v4(slice.at(row, piece))
                                         : make_uint4(0, 0, 0, 0);
  }
};

/// Calls take(row, piece) for all pieces of the slice, shared out among the block's threads.
template <class Take>
__device__ void for_each_piece(const UnitsSlice& slice, Take&& take) {
  const int pieces = 2 * slice.steps;
  int row = 0, piece = static_cast<int>(threadIdx.x);
  const auto wrap = [&] {
    for (; piece >= pieces && row < slice.count; piece -= pieces) ++row;
  };
  if (pieces == 0) return;
  for (wrap(); row < slice.count; piece += packed_threads, wrap()) take(row, piece);
}

__device__ inline void fill_up(const ScatteredRows& rows, const UnitsSlice& slice) {
  for_each_piece(slice, [&](int row, int piece) {
    ptx::st_shared_v4(slice.at(row, piece), rows(row, piece));
  });
}
/// Copies leave out what is beyond k: zeros go there.
__device__ inline void fill_up(const CopiedRows&, const UnitsSlice& slice) {
  const int own = slice.own_steps(), behind = 2 * (slice.steps - own);
  for (int i = static_cast<int>(threadIdx.x); i < slice.count * behind; i += packed_threads)
    ptx::st_shared_v4(slice.at(i / behind, 2 * own + i % behind), make_uint4(0, 0, 0, 0));
}

/// Rows of NVFP4 as BF16, which holds the six significant bits of an element times its block scale.
__device__ inline void nvfp4_units(const Args& args, const UnitsSlice& slice) {
  const std::int64_t blocks = args.k / 16;
  for_each_piece(slice, [&](int row, int piece) {
    std::uint32_t pairs[4] = {};
    if (piece < 2 * slice.own_steps()) {
      const std::int64_t column = slice.column + 8 * piece, block = column / 16;
      const auto* codes = static_cast<const std::uint8_t*>(args.a.data) +
                          (slice.first + row) * args.a.stride + column / 2;
      const std::uint8_t* scale =
          args.a.scales +
          (args.a.tiled
               ? slice.scale_tiles_before * tiled_128x4::bytes(tiled_128x4::tile_lines, blocks) +
                     tiled_128x4::offset(slice.row + row, block, blocks)
               : (slice.first + row) * blocks + block);
      const float factor = decode_e4m3(*scale & 0x7Fu);
      float values[8];
      decode_e2m1(*reinterpret_cast<const std::uint32_t*>(codes), values);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        pairs[i] = ptx::cvt_rn_bf16x2_f32(__fmul_rn(values[2 * i], factor),
                                          __fmul_rn(values[2 * i + 1], factor));
    }
    ptx::st_shared_v4(slice.at(row, piece), make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
  });
}

// The order in which packed_kernel.cuh goes through matrices and rows of a. A part is a matrix and
// up to units_rows of its rows; a matrix with more rows is several parts. Row tiles of the weights
// are counted through all parts.

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
