// Products of packed weights and few rows of a on Hopper, at the speed of memory: a block stays on
// its multiprocessor, and each of its warps has a ring of stages of its own, filled by linear bulk
// copies of up to four neighbouring tiles of the weights, a ring ahead of what it multiplies,
// across the ends of row tiles. Rows of a, as FP16 units (matmul_prepare.cuh), stay in shared
// memory.
//
// `k_warps` warps share a row tile along k, other warps take the next row tiles; the blocks of a
// cluster share k, too, before. After a few row tiles all sums are added: of the warps in their
// order, then of the blocks in theirs.
#pragma once

#include <cstdint>

#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/griddepcontrol.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/stream_geometry.hpp"
#include "cuda/tile/matmul_rows.cuh"

namespace microscale::cuda {

template <class Weights, int Tiles>
class MatmulStream {
 public:
  __device__ static void run(const MatmulStreamArgs& args) {
    extern __shared__ __align__(128) unsigned char memory[];
    MatmulStream stream(args, static_cast<std::uint32_t>(__cvta_generic_to_shared(memory)));
    stream.run();
  }

 private:
  using Product = RowsProduct<Weights, false, Tiles>;
  static constexpr int tile_bytes = Weights::Source::tile;
  static constexpr int stage_tiles = stream_stage_tiles(tile_bytes);
  static constexpr int stage_bytes = stage_tiles * tile_bytes;
  static constexpr int rounds = stream_rounds(Tiles);
  static constexpr std::uint32_t slot_bytes = Tiles * 512;

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
        blocks_(ptx::mov_cluster_nctarank()),
        rank_(ptx::mov_cluster_ctarank()),
        groups_(stream_warps / args.k_warps),
        group_(warp_ / args.k_warps) {
    const int chunks = static_cast<int>(fragment_tiles::col_tiles(args_.k));
    const int blocks = static_cast<int>(blocks_), rank = static_cast<int>(rank_);
    const int of_block = (chunks + blocks - 1) / blocks;
    shared_ = stream_shared(tile_bytes, Tiles, args.k_warps, args.units_rows, of_block, args.depth);
    block_first_ = stream_share(chunks, rank, blocks);
    block_chunks_ = stream_share(chunks, rank + 1, blocks) - block_first_;
    const int own = static_cast<int>(warp_) % args.k_warps;
    first_ = stream_share(block_chunks_, own, args.k_warps);
    chunks_ = stream_share(block_chunks_, own + 1, args.k_warps) - first_;
    row_tiles_ = static_cast<std::uint32_t>(
        fragment_tiles::row_tiles(args_.n, args_.output.gated != 0));
    row_bytes_ = static_cast<std::int64_t>(chunks) * tile_bytes;
  }

  __device__ void run() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < stream_warps * all_.depth + 1; ++i)
        ptx::mbarrier_init_shared(base_ + shared_.barriers + 8 * i, 1);
      ptx::fence_mbarrier_init();
    }
    ptx::griddepcontrol_launch_dependents();
    const bool grouped = args_.rows.offsets != nullptr;
    if (grouped) ptx::griddepcontrol_wait();  // before who has rows is asked
    __syncthreads();
    const std::uint32_t parts = grouped ? list_parts() : batch_parts();
    const std::uint64_t all = std::uint64_t{parts} * row_tiles_;
    const std::uint32_t clusters = gridDim.x / blocks_, cluster = blockIdx.x / blocks_;
    begin_ = static_cast<std::uint32_t>(all * cluster / clusters);
    end_ = static_cast<std::uint32_t>(all * (cluster + 1) / clusters);
    // The weights are nobody's result who may still be at work: the kernel that prepares a waits
    // for all before it, and lets this one begin only then.
    start_feed();
    for (int i = 0; i < all_.depth; ++i) feed(i);
    if (!grouped) ptx::griddepcontrol_wait();
    Segment at = segment_at(begin_);
    while (at.first < end_) {
      multiply(at);
      at = segment_at(at.end);
    }
    if (cluster_pending_) ptx::barrier_cluster_wait_acquire();  // others may read this block's sums
  }

  // Which matrices, and which rows of theirs.

  __device__ std::uint32_t batch_parts() const {
    return static_cast<std::uint32_t>(args_.rows.matrices) * passes(args_.rows.m);
  }
  __device__ std::uint32_t passes(std::int64_t rows) const {
    return static_cast<std::uint32_t>((rows + all_.units_rows - 1) / all_.units_rows);
  }

  /// Experts with rows, each as often as it has units_rows of them, in order.
  __device__ std::uint32_t list_parts() {
    __shared__ std::uint32_t count;
    if (warp_ == 0) {
      std::uint32_t before = 0;
      for (std::int64_t first = 0; first < args_.rows.matrices; first += 32) {
        const std::int64_t expert = first + lane_;
        const std::uint32_t own =
            expert < args_.rows.matrices ? passes(rows_of_matrix(args_.rows, expert).count) : 0;
        std::uint32_t upto = own;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
          const std::uint32_t other = __shfl_up_sync(0xFFFFFFFFu, upto, d);
          if (static_cast<int>(lane_) >= d) upto += other;
        }
        for (std::uint32_t i = 0; i < own; ++i) {
          const std::uint32_t index = before + upto - own + i;
          if (index < stream_most_parts)
            ptx::st_shared_b32(base_ + shared_.parts + 4 * index,
                               static_cast<std::uint32_t>(expert) | i << 16);
        }
        before += __shfl_sync(0xFFFFFFFFu, upto, 31);
      }
      if (lane_ == 0) count = before < stream_most_parts ? before : stream_most_parts;
    }
    __syncthreads();
    return count;
  }

  struct Part {
    std::int64_t matrix, done;  // done: rows of a before
  };
  __device__ Part part(std::uint32_t index) const {
    if (args_.rows.offsets != nullptr) {
      const std::uint32_t found = ptx::ld_shared_b32(base_ + shared_.parts + 4 * index);
      return {found & 0xFFFFu, std::int64_t{found >> 16} * all_.units_rows};
    }
    const std::uint32_t each = passes(args_.rows.m);
    return {index / each, std::int64_t{index % each} * all_.units_rows};
  }

  __device__ Segment segment_at(std::uint32_t at) const {
    const std::uint32_t end = (at / row_tiles_ + 1) * row_tiles_;
    return {at, end < end_ ? end : end_};
  }

  // The ring.

  __device__ std::uint32_t barrier(int stage) const {
    return base_ + shared_.barriers + 8 * (warp_ * all_.depth + stage);
  }
  __device__ std::uint32_t stage(int stage) const {
    return base_ + (warp_ * all_.depth + stage) * stage_bytes;
  }

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
    const std::int64_t matrix = part(feed_tile_ / row_tiles_).matrix;
    feed_from_ = args_.b + matrix * args_.b_matrix + (feed_tile_ % row_tiles_) * row_bytes_ +
                 (block_first_ + first_) * tile_bytes;
  }
  /// The next copy, if there is one left.
  __device__ void feed(int to) {
    if (feed_left_ == 0) return;
    const int tiles = feed_left_ < stage_tiles ? feed_left_ : stage_tiles;
    if (lane_ == 0) {
      ptx::mbarrier_arrive_expect_tx(barrier(to), tiles * tile_bytes);
      ptx::cp_async_bulk_shared_cluster_global_mbarrier(stage(to), feed_from_, tiles * tile_bytes,
                                                        barrier(to));
    }
    feed_from_ += tiles * tile_bytes;
    feed_left_ -= tiles;
    if (feed_left_ == 0) {
      feed_tile_ += groups_;
      find_feed();
    }
  }

  // Products.

  __device__ static void wait(std::uint32_t barrier, std::uint32_t parity) {
    while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
    }
  }

  __device__ void load_units(const MatrixRows& rows, std::int64_t done, int count) {
    const std::uint32_t full = base_ + shared_.barriers + 8 * stream_warps * all_.depth;
    const std::uint32_t bytes = block_chunks_ * 128;
    if (warp_ == 0) {
      if (lane_ == 0) ptx::mbarrier_arrive_expect_tx(full, bytes * count);
      __syncwarp();
      if (static_cast<int>(lane_) < count)
        ptx::cp_async_bulk_shared_cluster_global_mbarrier(
            base_ + shared_.units + lane_ * shared_.pitch,
            static_cast<const unsigned char*>(args_.units) +
                (rows.first + done + lane_) * args_.units_stride + block_first_ * 128,
            bytes, full);
    }
    wait(full, units_parity_);
    units_parity_ ^= 1;
  }

  __device__ void multiply(const Segment& segment) {
    const Part of = part(segment.first / row_tiles_);
    const MatrixRows rows = rows_of_matrix(args_.rows, of.matrix);
    const std::int64_t left = rows.count - of.done;
    const int count = static_cast<int>(left < all_.units_rows ? left : all_.units_rows);
    load_units(rows, of.done, count);
    Product product(args_, rows);
    std::uint32_t units[Tiles];  // this lane's, the last row's beyond the last
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      const int row = 8 * tile + static_cast<int>(lane_) / 4;
      units[tile] = base_ + shared_.units + (row < count ? row : count - 1) * shared_.pitch +
                    16 * (lane_ % 4) + first_ * 128;
    }
    const std::uint32_t at_once = rounds * groups_;
    for (std::uint32_t tile = segment.first; tile < segment.end; tile += at_once) {
      std::uint32_t own = tile + group_;
#pragma unroll 1
      for (int round = 0; round < rounds && own < segment.end; ++round, own += groups_) {
        row_tile(product, units);
        const std::uint32_t to = partial(warp_, round) + 4 * lane_;
#pragma unroll
        for (int t = 0; t < Tiles; ++t)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            ptx::st_shared_f32(to + 128 * (4 * t + i), product.sums[t][i]);
            product.sums[t][i] = 0.0f;
          }
      }
      const std::uint32_t end = tile + at_once < segment.end ? tile + at_once : segment.end;
      finish(product, of, tile, end);
    }
  }

  __device__ void row_tile(Product& product, const std::uint32_t (&units)[Tiles]) {
    int chunk = 0;
#pragma unroll 1
    while (chunk < chunks_) {
      wait(barrier(stage_), parity_);
      const std::uint32_t from = stage(stage_);
      if (chunks_ - chunk >= stage_tiles) {
#pragma unroll
        for (int i = 0; i < stage_tiles; ++i) one(product, units, from + i * tile_bytes, chunk + i);
      } else {
#pragma unroll 1
        for (int i = 0; i < chunks_ - chunk; ++i)
          one(product, units, from + i * tile_bytes, chunk + i);
      }
      chunk += stage_tiles;
      __syncwarp();
      feed(stage_);
      if (++stage_ == all_.depth) {
        stage_ = 0;
        parity_ ^= 1;
      }
    }
  }

  __device__ void one(Product& product, const std::uint32_t (&units)[Tiles], std::uint32_t from,
                      int chunk) const {
    const Weights weights = Weights::read(from, lane_);
    typename Product::Units u[Tiles];
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      u[tile].halves[0] = ptx::ld_shared_v4(units[tile] + chunk * 128);
      u[tile].halves[1] = ptx::ld_shared_v4(units[tile] + chunk * 128 + 64);
    }
    product.multiply(weights, u, 0, 0);
    product.multiply(weights, u, 0, 1);
  }

  // The end of row tiles.

  __device__ std::uint32_t partial(std::uint32_t warp, std::uint32_t round) const {
    return base_ + shared_.partial + (warp * rounds + round) * slot_bytes;
  }

  /// Row tiles [first, end), whose sums lie in shared memory. A thread adds those of one row of a,
  /// weight rows g and g + 8.
  __device__ void finish(Product& product, const Part& of, std::uint32_t first,
                         std::uint32_t end) {
    if (cluster_pending_) ptx::barrier_cluster_wait_acquire();
    __syncthreads();
    constexpr std::uint32_t each = Tiles * 64;
    const std::uint32_t count = (end - first) * each;
    for (std::uint32_t i = threadIdx.x; i < count; i += stream_threads) {
      const std::uint32_t slot = i / each, tile = i % each / 64, half = i / 32 % 2;
      const std::uint32_t warp = slot % groups_ * all_.k_warps, round = slot / groups_;
      float low = 0.0f, high = 0.0f;
      for (int w = 0; w < all_.k_warps; ++w) {
        const std::uint32_t from = partial(warp + w, round) + 128 * (4 * tile + half) + 4 * lane_;
        low = __fadd_rn(low, __uint_as_float(ptx::ld_shared_b32(from)));
        high = __fadd_rn(high, __uint_as_float(ptx::ld_shared_b32(from + 256)));
      }
      if (blocks_ == 1) {
        store(product, of, first + slot, tile, half, low, high);
      } else {
        const std::uint32_t to = base_ + shared_.sums + 8 * i;
        ptx::st_shared_f32(to, low);
        ptx::st_shared_f32(to + 4, high);
      }
    }
    if (blocks_ == 1) {
      __syncthreads();
      return;
    }
    ptx::barrier_cluster_arrive_release();
    ptx::barrier_cluster_wait_acquire();
    for (std::uint32_t i = threadIdx.x; i < count; i += stream_threads) {
      const std::uint32_t slot = i / each, tile = i % each / 64, half = i / 32 % 2;
      if (slot % blocks_ != rank_) continue;
      float low = 0.0f, high = 0.0f;
      for (std::uint32_t block = 0; block < blocks_; ++block) {
        const float2 sum = ptx::ld_shared_cluster_v2(
            ptx::mapa_shared_cluster(base_ + shared_.sums + 8 * i, block));
        low = __fadd_rn(low, sum.x);
        high = __fadd_rn(high, sum.y);
      }
      store(product, of, first + slot, tile, half, low, high);
    }
    ptx::barrier_cluster_arrive_release();
    cluster_pending_ = true;
  }

  __device__ void store(const Product& product, const Part& of, std::uint32_t row_tile,
                        std::uint32_t tile, std::uint32_t half, float low, float high) const {
    product.store(of.matrix, row_tile % row_tiles_, of.done + 8 * tile + 2 * (lane_ % 4) + half,
                  low, high);
  }

  const MatmulRowsArgs& args_;
  const MatmulStreamArgs& all_;
  const std::uint32_t base_, lane_, warp_, blocks_, rank_, groups_, group_;
  StreamShared shared_;
  int block_first_, block_chunks_;  // of k, in tiles of 64: of this block, from the first of all
  int first_, chunks_;              // of this warp, from the first of the block
  std::uint32_t row_tiles_, begin_ = 0, end_ = 0;
  std::int64_t row_bytes_;
  Segment feed_segment_{};
  std::uint32_t feed_tile_ = 0;
  int feed_left_ = 0;  // tiles of the row tile that is being copied
  const std::uint8_t* feed_from_ = nullptr;
  int stage_ = 0;
  std::uint32_t parity_ = 0, units_parity_ = 0;
  bool cluster_pending_ = false;
};

}  // namespace microscale::cuda

#define MICROSCALE_MATMUL_STREAM_ENTRY(name, tiles, ...)                                       \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::stream_threads, 1)            \
      name(const __grid_constant__ microscale::cuda::MatmulStreamArgs args) {                  \
    microscale::cuda::MatmulStream<microscale::cuda::__VA_ARGS__, tiles>::run(args);           \
  }
