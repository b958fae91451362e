// One row of a by 4-bit weights as they lie in a checkpoint, on Hopper, at the speed of memory.
// Wins where weights are not packed: 13.5, 36.0, 21.5 us for 8192 x 8192, 28672 x 8192, 7168 x
// 16384, the last of which takes 36 us to be packed alone; cuda/matmul/fallback/one_row.cuh takes
// half as long again (docs/performance/matmul_gpu.md).
//
// A block stays on its multiprocessor and takes its share of the row tiles of all matrices. One
// warp copies 2048 columns of 16 rows at a time into a ring of stages; eight warps multiply 256
// columns of each stage; one more warp adds up what they find and stores it, so that none of them
// waits for the end of a row tile.
//
// Two blocks of a cluster may halve its row tiles, the one in the middle along k: the second block,
// which begins with it, sends its sums to the first, which ends with it.
//
// Sums are added in an order that depends on shapes and the device alone: of a lane along k, of
// four lanes, of four warps in a row, of both halves of the warps, of both blocks.
#pragma once

#include <climits>
#include <cstdint>

#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/few_rows/cluster.cuh"
#include "cuda/matmul/few_rows/args.hpp"
#include "cuda/matmul/few_rows/ring.cuh"
#include "cuda/matmul/few_rows/unpacked_copies.cuh"
#include "cuda/matmul/few_rows/unpacked_end.cuh"
#include "cuda/matmul/few_rows/unpacked_row.cuh"
#include "cuda/matmul/few_rows/unpacked_weights.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"

namespace microscale::cuda::few_rows {

template <int Block, template <int> class By>
class UnpackedKernel {
  using Row = UnpackedRow<typename By<Block>::Units>;
  using Weights = UnpackedWeights<Block>;
  static constexpr int copies = unpacked_warps, stores = unpacked_warps + 1;  // the warps that do
  static constexpr int ahead = 2;  // stages of weights asked for before a

 public:
  __device__ static void run(const UnpackedArgs& args) {
    extern __shared__ __align__(1024) unsigned char unpacked_memory[];
    UnpackedKernel product(args,
                           static_cast<std::uint32_t>(__cvta_generic_to_shared(unpacked_memory)));
    product.run();
  }

 private:
  __device__ UnpackedKernel(const UnpackedArgs& args, std::uint32_t base)
      : args_(args),
        base_(base),
        rank_(args.cluster == 1 ? 0 : ptx::mov_cluster_ctarank()),
        lane_(static_cast<int>(threadIdx.x & 31)),
        warp_(static_cast<int>(threadIdx.x >> 5)),
        ring_(base + args.shared.barriers, args.depth),
        slots_(base + args.shared.barriers + HandedRing::barrier_bytes * args.depth, sum_slots),
        share_(Share::of(args, rank_)),
        first_matrix_(matrix_of(share_.begin)),
        first_tile_(share_.begin - first_matrix_ * args.row_tiles) {}

  __device__ void run() {
    const Row row(args_, base_, warp_);
    UnpackedCopies<Block> copy(args_, base_, share_, first_matrix_, ring_);
    UnpackedEnd end(args_, base_, share_, rank_, first_matrix_, first_tile_);
    if (warp_ == copies) {
      copy.init();
      copy.start(args_.early);
    }
    if (warp_ == stores) end.init();
    follow_previous_grid();
    const bool some = share_.begin < share_.end;
    const std::uint32_t last_matrix = some ? matrix_of(share_.end - 1) : first_matrix_;
    const bool both = args_.buffers == 2 && last_matrix > first_matrix_;
    typename Row::Raw first{}, second{};
    // Rows of a arrive behind the weights that were asked for before: these are few.
    if (warp_ < unpacked_warps) {
      if (some) first = row.load(first_matrix_);
      if (both) second = row.load(first_matrix_ + 1);
    } else if (warp_ == copies) {
      copy.start(ahead - args_.early);
    } else {
      end.ask();
    }
    if (args_.cluster > 1) ptx::barrier_cluster_arrive_relaxed();
    __syncthreads();
    if (warp_ < unpacked_warps) {
      const float factor = row.make(first_matrix_, first, 0);
      multiply(row, last_matrix, factor, both ? row.make(first_matrix_ + 1, second, 1) : factor);
    } else if (warp_ == copies) {
      copy.start(INT_MAX);
    }
    if (args_.cluster > 1) ptx::barrier_cluster_wait_acquire();  // the other block has begun
    if (warp_ == stores) end.run();
  }

  __device__ std::uint32_t matrix_of(std::uint32_t tile) const {
    return static_cast<std::uint32_t>(args_.by_row_tiles.divide(static_cast<int>(tile)));
  }

  /// `factor`, `next_factor`: what sums of the first matrix and of the next are multiplied by.
  __device__ void multiply(const Row& row, std::uint32_t last_matrix, float factor,
                           float next_factor) {
    const int g = lane_ / 4, t = lane_ % 4, column = warp_ * warp_columns;
    // A row may end before this warp's columns of the last stage.
    const int own_stages = static_cast<int>((args_.k - column + stage_columns - 1) / stage_columns);
    typename Weights::Place weights_at(base_, column, lane_, args_.b_tiled != 0);
    ptx::keep_in_place(weights_at.codes);  // or they are computed anew for each stage
    ptx::keep_in_place(weights_at.scales);
    const bool is_column = g / 2 == t;
    uint4 plus[2] = {}, minus[2] = {};  // of a; other columns' lanes keep zeros
    const auto row_at = [&](int buffer) {
      UnitsPlace at = row.at(buffer, 0);
      at.units += 16 * g;
      at.scales += 8 * t;
      return at;
    };
    const std::uint32_t sums_at =
        base_ + args_.shared.slots + warp_ * (tile_rows * 16) + 16 * row_of_fragment(g) + 4 * t;
    float sums[2] = {}, found[2] = {};  // of the row tile, of the one before
    const auto put = [&] {
      slots_.wait_empty();
      const std::uint32_t to = sums_at + slots_.offset<sum_slot_bytes>();
      ptx::st_shared_f32(to, found[0]);
      ptx::st_shared_f32(to + 128, found[1]);
      slots_.arrive_full();
      slots_.next();
    };
    const int further = args_.buffers - 1;  // matrices whose row is made before it is needed
    int buffer = 0;
    UnitsPlace first = row_at(buffer), from = first;
    from.units += share_.stage * stage_units_bytes;
    from.scales += share_.stage * stage_unit_scales_bytes;
    std::uint32_t matrix = first_matrix_, tile = first_tile_;
    int end = share_.end_stage(share_.begin, args_.stages),
        left = (end < own_stages ? end : own_stages) - share_.stage;
    bool waits = false;  // `found` has to be put, while the next stage comes to registers
#pragma unroll 1
    for (std::uint32_t i = share_.begin; i < share_.end;) {
      if (left > 0) {
        ring_.wait_full();
        Weights weights[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          weights[half] =
              Weights::read(weights_at, ring_.offset<unpacked_stage_bytes(Block)>(), half);
          if (!is_column) continue;
          plus[half] = ptx::ld_shared_v4(from.units + half * half_units_bytes);
          minus[half] = ptx::ld_shared_v4(from.units + half * half_units_bytes + 128);
        }
        if (waits) put();
        waits = false;
        ring_.arrive_empty(weights[0].last_read() | weights[1].last_read());
#pragma unroll
        for (int half = 0; half < 2; ++half)
          By<Block>::multiply(weights[half], plus[half], minus[half],
                              from.scales + half * half_unit_scales_bytes, sums);
        from.units += stage_units_bytes;
        from.scales += stage_unit_scales_bytes;
        ring_.next();
        if (--left > 0) continue;
      }
      if (own_stages < end) {
        ring_.wait_full();
        ring_.arrive_empty(0);
        ring_.next();
      }
      if (waits) put();
      waits = true;
#pragma unroll
      for (int line = 0; line < 2; ++line) {
        found[line] = __fmul_rn(sums[line], factor);
        sums[line] = 0.0f;
      }
      end = ++i + 1 == share_.end ? share_.last : args_.stages;
      left = end < own_stages ? end : own_stages;
      from = first;
      if (++tile < args_.row_tiles || i == share_.end) continue;
      tile = 0;
      ++matrix;
      buffer ^= further;
      const std::uint32_t wanted = matrix + further;
      float made = next_factor;
      if (wanted <= last_matrix) made = row.make(wanted, row.load(wanted), buffer ^ further);
      factor = further > 0 ? next_factor : made;
      next_factor = made;
      first = from = row_at(buffer);
    }
    if (waits) put();
  }

  const UnpackedArgs& args_;
  const std::uint32_t base_, rank_;  // of the cluster
  const int lane_, warp_;
  HandedRing ring_, slots_;
  const Share share_;
  const std::uint32_t first_matrix_, first_tile_;
};

}  // namespace microscale::cuda::few_rows
