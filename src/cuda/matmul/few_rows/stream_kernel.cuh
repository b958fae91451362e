// Products of packed weights and few rows of a on Hopper, at the speed of memory: a block stays on
// its multiprocessor, and each of its warps has a ring of stages of its own, filled by linear bulk
// copies of up to four neighbouring tiles of the weights, a ring ahead of what it multiplies,
// across the ends of row tiles. Rows of a come to shared memory while the first weights arrive, and
// stay there. They are multiplied in BF16, those of FP16 in FP16.
//
// Some warps share a row tile along k, other warps take the next row tiles; the blocks of a
// cluster share k, too, before. After a few row tiles all sums are added: of the warps in their
// order, then of the blocks in theirs. Each block of a cluster has its share of the sums to add up,
// and is sent them by the others, in one of two buffers in turn; it does so when it has multiplied
// the next row tiles, so nobody waits for a block of the cluster that is no more than those behind.
#pragma once

#include <cstdint>

#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/matmul/few_rows/stream_plan.hpp"
#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/fallback/kernel.cuh"
#include "cuda/matmul/few_rows/ring.cuh"
#include "cuda/matmul/few_rows/stream_cluster.cuh"
#include "cuda/matmul/few_rows/stream_parts.cuh"
#include "cuda/matmul/few_rows/stream_units.cuh"

namespace microscale::cuda {

using few_rows::OwnRing;

/// Kind: cuda/matmul/few_rows/stream_packed.cuh.
template <class Kind>
class MatmulStream {
 public:
  __device__ static void run(const MatmulStreamArgs& args) {
    extern __shared__ __align__(128) unsigned char memory[];
    MatmulStream stream(args, static_cast<std::uint32_t>(__cvta_generic_to_shared(memory)));
    stream.run();
  }

 private:
  using Product = typename Kind::Product;
  static constexpr StreamKind shape = Kind::kind;

  /// Row tiles [first, end) of one part, among those of all parts.
  struct Segment {
    std::uint32_t first, end;
  };

  __device__ MatmulStream(const MatmulStreamArgs& args, std::uint32_t base)
      : args_(args.product),
        all_(args),
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
        kind_(args, lane_) {
    const int rank = static_cast<int>(rank_);
    block_first_ = stream_share(args.chunks, rank, args.cut.cluster_shift);
    block_chunks_ = stream_share(args.chunks, rank + 1, args.cut.cluster_shift) - block_first_;
    const int own = static_cast<int>(warp_ - (group_ << args.cut.k_shift));
    first_ = stream_share(block_chunks_, own, args.cut.k_shift);
    chunks_ = stream_share(block_chunks_, own + 1, args.cut.k_shift) - first_;
  }

  __device__ void run() {
    const bool grouped = args_.rows.expert_rows != nullptr;
    ring_.init(Kind::arrivals);
    if (threadIdx.x == 0) {
      ptx::mbarrier_init_shared(units_barrier(), stream_warps);
      if (blocks_ > 1) cluster_.init();
    }
    ptx::fence_mbarrier_init();
    if (grouped) {
      follow_previous_grid();
      const std::uint32_t all = parts_.list() * all_.row_tiles,
                          clusters = gridDim.x >> all_.cut.cluster_shift, each = all / clusters;
      take_share(each, all - each * clusters);
    } else {
      take_share(all_.batch_each, all_.batch_more);
    }
    __syncwarp();
    start_feed();
    const bool early = all_.constant != 0 && !grouped;
    // While the grid in front ends. What it may still write to weights, copies see all the same.
    if (!early && !grouped && feed_left_ > 0) kind_.prefetch(min(feed_left_, shape.stage_chunks));
    Segment at = segment_at(begin_);
    // Weights that nobody writes: half the ring while the grid in front ends. Then rows of a: what
    // is asked for behind a whole ring of weights comes behind it.
#pragma unroll 1
    for (int until = early ? all_.cut.depth / 2 : 0, turn = 0;; ++turn) {
#pragma unroll 1
      for (; fed_ < until; ++fed_) feed(stage(fed_), ring_.full(fed_));
      if (turn > 0) break;
      __syncthreads();
      if (blocks_ > 1) cluster_.arrive();
      follow_previous_grid();
      if (at.first < end_) start_rows(at);
      until = copies_rows() ? all_.cut.depth : max(1, until);
    }
    while (at.first < end_) {
      multiply(at);
      at = segment_at(at.end);
      if (at.first < end_) start_rows(at);
    }
    if (blocks_ > 1) {
      cluster_.meet();
      add_blocks();
    }
  }

  /// Clusters take `each` row tiles, the first `more` of them one more.
  __device__ void take_share(std::uint32_t each, std::uint32_t more) {
    const std::uint32_t cluster = blockIdx.x >> all_.cut.cluster_shift;
    begin_ = each * cluster + (cluster < more ? cluster : more);
    end_ = begin_ + each + (cluster < more);
  }

  __device__ Segment segment_at(std::uint32_t at) const {
    const std::uint32_t end = (parts_.index_of(at) + 1) * all_.row_tiles;
    return {at, end < end_ ? end : end_};
  }

  // The ring.

  __device__ std::uint32_t units_barrier() const {
    return base_ + all_.shared.barriers + OwnRing::barrier_bytes * stream_warps * all_.cut.depth;
  }

  __device__ std::uint32_t stage(int stage) const { return stages_ + stage * shape.stage_bytes; }

  __device__ void start_feed() {
    feed_segment_ = segment_at(begin_);
    feed_tile_ = begin_ + group_;
    find_feed();
  }
  /// Goes on to the segment that has a row tile for this warp.
  __device__ void find_feed() {
    while (feed_tile_ >= feed_segment_.end) {
      if (feed_segment_.end >= end_ || chunks_ == 0) {
        feed_left_ = 0;
        return;
      }
      feed_segment_ = segment_at(feed_segment_.end);
      feed_tile_ = feed_segment_.first + group_;
    }
    feed_left_ = chunks_;
    const std::uint32_t of = parts_.index_of(feed_tile_);
    kind_.aim(parts_.at(of).matrix, feed_tile_ - of * all_.row_tiles, block_first_ + first_);
  }
  /// Copies what comes next, if there is something left, to a stage and its barrier.
  __device__ void feed(std::uint32_t to, std::uint32_t barrier) {
    if (feed_left_ == 0) return;
    const int chunks = feed_left_ < shape.stage_chunks ? feed_left_ : shape.stage_chunks;
    kind_.copy(chunks, to, barrier);
    feed_left_ -= chunks;
    if (feed_left_ != 0) return;
    feed_tile_ += 1u << group_shift_;
    if (feed_tile_ >= feed_segment_.end) return find_feed();
    kind_.advance(1u << group_shift_);
    feed_left_ = chunks_;
  }

  // Rows of a.

  __device__ bool copies_rows() const {
    return all_.a.scales == nullptr && CopiedRows::serve(all_.a);
  }
  /// Those of a segment, for this block's part of k.
  __device__ UnitsSlice slice_of(const StreamPart& of, const MatrixRows& rows) const {
    const std::int64_t left = rows.count - of.done;
    return {.first = rows.first + of.done,
            .row = of.done,
            .scale_tiles_before = of.scale_tiles_before,
            .k = all_.a.k,
            .count = static_cast<int>(left < all_.units_rows ? left : all_.units_rows),
            .column = block_first_ * shape.columns,
            .steps = block_chunks_ * (shape.columns / 16),
            .base = base_ + all_.shared.units,
            .pitch = static_cast<std::uint32_t>(all_.shared.pitch)};
  }
  __device__ void start_rows(const Segment& segment) const {
    if (!copies_rows()) return;
    const StreamPart of = parts_.at(parts_.index_of(segment.first));
    ptx::fence_proxy_async_shared();
    CopiedRows::start(all_.a, slice_of(of, rows_of_matrix(args_.rows, of.matrix)), units_barrier());
  }
  __device__ void make_units(const UnitsSlice& slice) {
    if (Kind::bf16 && all_.a.scales != nullptr) {
      nvfp4_units(all_.a, slice);
    } else if (copies_rows()) {
      ptx::mbarrier_wait_parity(units_barrier(), units_parity_);
      units_parity_ ^= 1;
      fill_up(CopiedRows{slice}, slice);
    } else {
      fill_up(ScatteredRows{all_.a, slice}, slice);
    }
    __syncthreads();
    for (; fed_ < all_.cut.depth; ++fed_) feed(stage(fed_), ring_.full(fed_));
  }
  // Products.

  __device__ void multiply(const Segment& segment) {
    const StreamPart of = parts_.at(parts_.index_of(segment.first));
    const MatrixRows rows = rows_of_matrix(args_.rows, of.matrix);
    const ProductFactors global = product_factors(args_.output, of.matrix);
    const UnitsSlice slice = slice_of(of, rows);
    make_units(slice);
    Product product(args_, rows);
    kind_.begin(slice.base + first_ * shape.units_bytes, slice.pitch, slice.count);
    const std::uint32_t at_once = 1u << (all_.cut.rounds_shift + group_shift_);
    for (std::uint32_t tile = segment.first; tile < segment.end; tile += at_once) {
      std::uint32_t own = tile + group_;
#pragma unroll 1
      for (int round = 0; round < 1 << all_.cut.rounds_shift && own < segment.end;
           ++round, own += 1u << group_shift_) {
        row_tile(product);
        kind_.put_sums(product, partial(warp_, round));
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
      for (; i + Kind::at_once <= count; i += Kind::at_once)
#pragma unroll
        for (int j = 0; j < Kind::at_once; ++j)
          kind_.multiply(product, kind_.read(from, i + j, chunk + i + j));
#pragma unroll 1
      for (; i < count; ++i) kind_.multiply(product, kind_.read(from, i, chunk + i));
      chunk += shape.stage_chunks;
      __syncwarp();
      feed(from, ring_.full());
      ring_.next();
    }
  }

  // The end of row tiles.

  __device__ std::uint32_t partial(std::uint32_t warp, std::uint32_t round) const {
    return base_ + all_.shared.partial +
           ((warp << all_.cut.rounds_shift) + round) * shape.slot_bytes;
  }

  /// Row tiles [first, end), whose sums lie in shared memory. A thread adds those of one row of a,
  /// weight rows g and g + 8.
  __device__ void finish(const Product& product, const StreamPart& of, const ProductFactors& global,
                         std::uint32_t first, std::uint32_t end) {
    if (blocks_ > 1) {
      cluster_.meet();
      add_blocks();
    }
    __syncthreads();
    constexpr std::uint32_t each = shape.slot_sums();
    const std::uint32_t own = (end - first) * each, count = blocks_ == 1 ? own : cluster_.count();
    for (std::uint32_t i = threadIdx.x; i < count; i += stream_threads) {
      const std::uint32_t slot = i / each;
      const StreamSum sum = Kind::sum(i % each);
      const std::uint32_t round = slot >> group_shift_, warp = (slot - (round << group_shift_))
                                                               << all_.cut.k_shift;
      float low = 0.0f, high = 0.0f;
#pragma unroll 1
      for (int w = 0; w < 1 << all_.cut.k_shift && i < own; w += 4) {
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

  /// This block's share of the sums that were sent last.
  __device__ void add_blocks() {
    if (sent_.first == sent_.end) return;
    const StreamPart of = parts_.at(parts_.index_of(sent_.first));
    const Product product(args_, rows_of_matrix(args_.rows, of.matrix));
    const ProductFactors global = product_factors(args_.output, of.matrix);
    cluster_.add_up([&](std::uint32_t i, float low, float high) {
      const std::uint32_t row_tile = sent_.first + i / shape.slot_sums();
      if (row_tile < sent_.end)
        store(product, of, global, row_tile, Kind::sum(i % shape.slot_sums()), low, high);
    });
    sent_.end = sent_.first;
  }

  __device__ void store(const Product& product, const StreamPart& of, const ProductFactors& global,
                        std::uint32_t row_tile, const StreamSum& sum, float low, float high) const {
    product.store(global, of.matrix, row_tile - parts_.index_of(row_tile) * all_.row_tiles,
                  of.done + sum.row, static_cast<int>(sum.g), low, high);
  }

  const MatmulRowsArgs& args_;
  const MatmulStreamArgs& all_;
  const std::uint32_t base_, lane_, warp_, group_shift_, group_;
  const std::uint32_t stages_;  // of this warp
  OwnRing ring_;
  const std::uint32_t blocks_, rank_;
  StreamCluster<shape.sums_shift> cluster_;
  StreamParts parts_;
  Kind kind_;
  int block_first_, block_chunks_;  // of k, in chunks: of this block, from the first of all
  int first_, chunks_;              // of this warp, from the first of the block
  std::uint32_t begin_ = 0, end_ = 0;
  Segment feed_segment_{};
  std::uint32_t feed_tile_ = 0;
  int feed_left_ = 0;  // chunks of the row tile that is being copied
  int fed_ = 0;        // stages that have been filled at the start
  std::uint32_t units_parity_ = 0;
  Segment sent_{};  // whose sums have been sent last
};

}  // namespace microscale::cuda
