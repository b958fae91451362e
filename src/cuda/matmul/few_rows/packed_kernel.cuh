// Packed 4-bit weights by few rows of a on Hopper, at the speed of memory. Wins over the unpacked
// kernel by 3 to 8 % at one row (12.5, 35.0, 19.8 us for 13.5, 36.0, 21.5), and is the only one for
// two to eight rows, gates and experts; cuda/matmul/in_registers is faster from nine rows on, where
// it has the formats. Times: docs/performance/matmul_gpu.md.
//
// A block stays on its multiprocessor. Each of its warps has a ring of stages of its own and fills
// it by linear bulk copies of up to four neighbouring tiles of the weights, a ring ahead of what it
// multiplies, across the ends of row tiles. Rows of a come to shared memory while the first weights
// arrive, and stay there. They are multiplied in BF16, those of FP16 in FP16.
//
// The blocks of a cluster share a row tile along k, then some warps of each block do; the other
// warps take the next row tiles. After a few row tiles all sums are added: those of warps in their
// order, then those of blocks (packed_cluster.cuh).
#pragma once

#include <cstdint>

#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/fallback/kernel.cuh"
#include "cuda/matmul/few_rows/cluster.cuh"
#include "cuda/matmul/few_rows/packed_cluster.cuh"
#include "cuda/matmul/few_rows/packed_rows.cuh"
#include "cuda/matmul/few_rows/args.hpp"
#include "cuda/matmul/few_rows/ring.cuh"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"

namespace microscale::cuda::few_rows {

/// Loads: PackedLoads.
template <class Loads>
class PackedKernel {
 public:
  __device__ static void run(const PackedArgs& args) {
    extern __shared__ __align__(128) unsigned char packed_memory[];
    PackedKernel product(args, static_cast<std::uint32_t>(__cvta_generic_to_shared(packed_memory)));
    product.run();
  }

 private:
  using Product = typename Loads::Product;
  static constexpr PackedShape shape = Loads::shape;

  /// Row tiles of one part, among those of all parts.
  using Segment = TileRange;

  __device__ PackedKernel(const PackedArgs& args, std::uint32_t base)
      : args_(args),
        base_(base),
        lane_(threadIdx.x & 31),
        warp_(threadIdx.x / 32),
        group_shift_(args.cut.groups_shift()),
        group_(warp_ >> args.cut.k_shift),
        stages_(base + warp_ * args.cut.depth * shape.stage_bytes),
        ring_(base + args.shared.barriers + OwnRing::barrier_bytes * warp_ * args.cut.depth,
              args.cut.depth),
        blocks_(1u << args.cut.cluster_shift),
        rank_(ptx::mov_cluster_ctarank()),
        cluster_(args, base, rank_),
        parts_(args, base),
        loads_(args, lane_) {
    const int rank = static_cast<int>(rank_);
    block_first_ = share_of_k(args.chunks, rank, args.cut.cluster_shift);
    block_chunks_ = share_of_k(args.chunks, rank + 1, args.cut.cluster_shift) - block_first_;
    const int own = static_cast<int>(warp_ - (group_ << args.cut.k_shift));
    first_ = share_of_k(block_chunks_, own, args.cut.k_shift);
    chunks_ = share_of_k(block_chunks_, own + 1, args.cut.k_shift) - first_;
  }

  __device__ void run() {
    const bool grouped = args_.rows.expert_rows != nullptr;
    const std::uint32_t cluster = blockIdx.x >> args_.cut.cluster_shift;
    ring_.init(Loads::arrivals);
    if (threadIdx.x == 0) {
      ptx::mbarrier_init_shared(units_barrier(), packed_warps);
      if (blocks_ > 1) cluster_.init();
    }
    ptx::fence_mbarrier_init();
    if (grouped) {
      follow_previous_grid();
      const std::uint32_t all = parts_.list() * args_.row_tiles,
                          clusters = gridDim.x >> args_.cut.cluster_shift, each = all / clusters;
      share_ = tiles_of_cluster(cluster, each, all - each * clusters);
    } else {
      share_ = tiles_of_cluster(cluster, args_.each, args_.more);
    }
    __syncwarp();
    start_feed();
    const bool early = args_.early > 0;
    // Prefetching while the grid in front ends is safe even if that grid still writes the weights:
    // the copies read them again.
    if (!early && !grouped && feed_left_ > 0) loads_.prefetch(min(feed_left_, shape.stage_chunks));
    Segment at = segment_at(share_.begin);
    // Constant weights: half the ring is filled while the grid in front ends. Then rows of a, which
    // would arrive behind a whole ring of weights if they were asked for behind it.
#pragma unroll 1
    for (int until = args_.early, turn = 0;; ++turn) {
#pragma unroll 1
      for (; fed_ < until; ++fed_) feed(stage(fed_), ring_.full(fed_));
      if (turn > 0) break;
      __syncthreads();
      if (blocks_ > 1) cluster_.arrive();
      follow_previous_grid();
      if (at.begin < share_.end) start_rows(at);
      until = copies_rows() ? args_.cut.depth : max(1, until);
    }
    while (at.begin < share_.end) {
      multiply(at);
      at = segment_at(at.end);
      if (at.begin < share_.end) start_rows(at);
    }
    if (blocks_ > 1) {
      cluster_.meet();
      add_blocks();
    }
  }

  __device__ Segment segment_at(std::uint32_t at) const {
    const std::uint32_t end = (parts_.index_of(at) + 1) * args_.row_tiles;
    return {at, end < share_.end ? end : share_.end};
  }

  // The ring.

  __device__ std::uint32_t units_barrier() const {
    return base_ + args_.shared.barriers + OwnRing::barrier_bytes * packed_warps * args_.cut.depth;
  }

  __device__ std::uint32_t stage(int stage) const { return stages_ + stage * shape.stage_bytes; }

  __device__ void start_feed() {
    feed_segment_ = segment_at(share_.begin);
    feed_tile_ = share_.begin + group_;
    find_feed();
  }
  /// Finds the next segment that has a row tile for this warp, and aims the copies at it.
  __device__ void find_feed() {
    while (feed_tile_ >= feed_segment_.end) {
      if (feed_segment_.end >= share_.end || chunks_ == 0) {
        feed_left_ = 0;
        return;
      }
      feed_segment_ = segment_at(feed_segment_.end);
      feed_tile_ = feed_segment_.begin + group_;
    }
    feed_left_ = chunks_;
    const std::uint32_t of = parts_.index_of(feed_tile_);
    loads_.aim(parts_.at(of).matrix, feed_tile_ - of * args_.row_tiles, block_first_ + first_);
  }
  /// Starts the next copy, if weights are left, to a stage and its barrier. The whole warp.
  __device__ void feed(std::uint32_t to, std::uint32_t barrier) {
    if (feed_left_ == 0) return;
    const int chunks = feed_left_ < shape.stage_chunks ? feed_left_ : shape.stage_chunks;
    loads_.copy(chunks, to, barrier);
    feed_left_ -= chunks;
    if (feed_left_ != 0) return;
    feed_tile_ += 1u << group_shift_;
    if (feed_tile_ >= feed_segment_.end) return find_feed();
    loads_.advance(1u << group_shift_);
    feed_left_ = chunks_;
  }

  // Rows of a.

  __device__ bool copies_rows() const {
    return args_.a.scales == nullptr && CopiedRows::serve(args_);
  }
  /// The rows of a part, for this block's part of k.
  __device__ UnitsSlice slice_of(const Part& of, const MatrixRows& rows) const {
    const std::int64_t left = rows.count - of.done;
    return {.first = rows.first + of.done,
            .row = of.done,
            .scale_tiles_before = of.scale_tiles_before,
            .k = args_.k,
            .count = static_cast<int>(left < args_.units_rows ? left : args_.units_rows),
            .column = block_first_ * shape.columns,
            .steps = block_chunks_ * (shape.columns / 16),
            .base = base_ + args_.shared.units,
            .pitch = static_cast<std::uint32_t>(args_.shared.pitch)};
  }
  __device__ void start_rows(const Segment& segment) const {
    if (!copies_rows()) return;
    const Part of = parts_.at(parts_.index_of(segment.begin));
    ptx::fence_proxy_async_shared();
    CopiedRows::start(args_, slice_of(of, rows_of_matrix(args_.rows, of.matrix)), units_barrier());
  }
  __device__ void make_units(const UnitsSlice& slice) {
    if (Loads::bf16 && args_.a.scales != nullptr) {
      nvfp4_units(args_, slice);
    } else if (copies_rows()) {
      ptx::mbarrier_wait_parity(units_barrier(), units_parity_);
      units_parity_ ^= 1;
      fill_up(CopiedRows{slice}, slice);
    } else {
      fill_up(ScatteredRows{args_, slice}, slice);
    }
    __syncthreads();
    for (; fed_ < args_.cut.depth; ++fed_) feed(stage(fed_), ring_.full(fed_));
  }
  // Products.

  __device__ void multiply(const Segment& segment) {
    const Part of = parts_.at(parts_.index_of(segment.begin));
    const MatrixRows rows = rows_of_matrix(args_.rows, of.matrix);
    const ProductFactors global = product_factors(args_.output, of.matrix);
    const UnitsSlice slice = slice_of(of, rows);
    make_units(slice);
    Product product(args_, rows);
    loads_.begin(slice.base + first_ * shape.units_bytes, slice.pitch, slice.count);
    const std::uint32_t at_once = 1u << (args_.cut.rounds_shift + group_shift_);
    for (std::uint32_t tile = segment.begin; tile < segment.end; tile += at_once) {
      std::uint32_t own = tile + group_;
#pragma unroll 1
      for (int round = 0; round < 1 << args_.cut.rounds_shift && own < segment.end;
           ++round, own += 1u << group_shift_) {
        row_tile(product);
        loads_.put_sums(product, partial(warp_, round));
      }
      const std::uint32_t end = tile + at_once < segment.end ? tile + at_once : segment.end;
      finish(product, of, global, tile, end);
    }
  }

  __device__ void row_tile(Product& product) {
    int chunk = 0;
#pragma unroll 1
    while (chunk < chunks_) {
      ring_.wait_full();
      const std::uint32_t from = stages_ + ring_.offset<shape.stage_bytes>();
      const int left = chunks_ - chunk;
      const int count = left < shape.stage_chunks ? left : shape.stage_chunks;
      int i = 0;
#pragma unroll 1
      for (; i + Loads::at_once <= count; i += Loads::at_once)
#pragma unroll
        for (int j = 0; j < Loads::at_once; ++j)
          loads_.multiply(product, loads_.read(from, i + j, chunk + i + j));
#pragma unroll 1
      for (; i < count; ++i) loads_.multiply(product, loads_.read(from, i, chunk + i));
      chunk += shape.stage_chunks;
      __syncwarp();
      feed(from, ring_.full());
      ring_.next();
    }
  }

  // The end of row tiles.

  __device__ std::uint32_t partial(std::uint32_t warp, std::uint32_t round) const {
    return base_ + args_.shared.partial +
           ((warp << args_.cut.rounds_shift) + round) * shape.slot_bytes;
  }

  /// Adds up the sums of row tiles [first, end), which the warps have put into shared memory, and
  /// stores them, or sends them to the cluster. A thread takes weight rows g and g + 8 of a row of
  /// a.
  __device__ void finish(const Product& product, const Part& of, const ProductFactors& global,
                         std::uint32_t first, std::uint32_t end) {
    if (blocks_ > 1) {
      cluster_.meet();
      add_blocks();
    }
    __syncthreads();
    constexpr std::uint32_t each = shape.slot_sums();
    const std::uint32_t own = (end - first) * each, count = blocks_ == 1 ? own : cluster_.count();
    for (std::uint32_t i = threadIdx.x; i < count; i += packed_threads) {
      const std::uint32_t slot = i / each;
      const SumPlace sum = Loads::sum(i % each);
      const std::uint32_t round = slot >> group_shift_, warp = (slot - (round << group_shift_))
                                                               << args_.cut.k_shift;
      float low = 0.0f, high = 0.0f;
#pragma unroll 1
      for (int w = 0; w < 1 << args_.cut.k_shift && i < own; w += 4) {
        float lows[4], highs[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const std::uint32_t from = partial(warp + w + j, round);
          lows[j] = __uint_as_float(ptx::ld_shared_b32(from + sum.low));
          highs[j] = __uint_as_float(ptx::ld_shared_b32(from + sum.high));
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) low = __fadd_rn(low, lows[j]), high = __fadd_rn(high, highs[j]);
      }
      if (blocks_ == 1)
        store(product, of, global, first + slot, sum, low, high);
      else
        cluster_.send(i, low, high);
    }
    if (blocks_ > 1) sent_ = {first, end};
    __syncthreads();
  }

  /// Adds up and stores this block's share of the sums that the cluster sent last.
  __device__ void add_blocks() {
    if (sent_.begin == sent_.end) return;
    const Part of = parts_.at(parts_.index_of(sent_.begin));
    const Product product(args_, rows_of_matrix(args_.rows, of.matrix));
    const ProductFactors global = product_factors(args_.output, of.matrix);
    cluster_.add_up([&](std::uint32_t i, float low, float high) {
      const std::uint32_t row_tile = sent_.begin + i / shape.slot_sums();
      if (row_tile < sent_.end)
        store(product, of, global, row_tile, Loads::sum(i % shape.slot_sums()), low, high);
    });
    sent_.end = sent_.begin;
  }

  __device__ void store(const Product& product, const Part& of, const ProductFactors& global,
                        std::uint32_t row_tile, const SumPlace& sum, float low, float high) const {
    product.store(global, of.matrix, row_tile - parts_.index_of(row_tile) * args_.row_tiles,
                  of.done + sum.row, static_cast<int>(sum.g), low, high);
  }

  const PackedArgs& args_;
  const std::uint32_t base_, lane_, warp_, group_shift_, group_;
  const std::uint32_t stages_;  // of this warp
  OwnRing ring_;
  const std::uint32_t blocks_, rank_;
  ClusterSums<shape.sums_shift> cluster_;
  Parts parts_;
  Loads loads_;
  int block_first_, block_chunks_;  // of k, in chunks: of this block, from the first of all
  int first_, chunks_;              // of this warp, from the first of the block
  TileRange share_{};               // of the cluster
  Segment feed_segment_{};
  std::uint32_t feed_tile_ = 0;
  int feed_left_ = 0;  // chunks left of the row tile that is being copied
  int fed_ = 0;        // stages that have been filled at the start
  std::uint32_t units_parity_ = 0;
  Segment sent_{};  // row tiles whose sums have been sent and not yet added up
};

}  // namespace microscale::cuda::few_rows
