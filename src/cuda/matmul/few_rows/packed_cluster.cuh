// How the blocks of a cluster that share k add their sums up. Each block owns an equal share of the
// sums; all blocks, itself included, send it their part of that share, into one of two mailboxes in
// turn. A block adds up what it was sent only when its next sums are ready, so it rarely waits for
// the others.
#pragma once

#include <cstdint>

#include "cuda/matmul/args.hpp"
#include "cuda/matmul/few_rows/cluster.cuh"
#include "cuda/matmul/few_rows/args.hpp"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/memory.cuh"

namespace microscale::cuda::few_rows {

/// A pair is the sums of weight rows g and g + 8 for one row of a, 2^SumsShift pairs a row tile;
/// every block sends count() of them a turn.
template <int SumsShift>
class ClusterSums {
 public:
  /// `base`: of the block's shared memory.
  __device__ ClusterSums(const PackedArgs& args, std::uint32_t base, std::uint32_t rank)
      : args_(args), base_(base), rank_(rank) {}

  /// One thread makes the mailboxes; a fence and a barrier of the block follow, then all threads
  /// call arrive().
  __device__ void init() const {
    for (int buffer = 0; buffer < 2; ++buffer) {
      mailbox(buffer).init();
      expect(buffer);
    }
  }
  __device__ static void arrive() { ptx::barrier_cluster_arrive_relaxed(); }
  /// Waits until all blocks of the cluster have arrived: before anything is sent, since a mailbox
  /// must exist, and before the block ends, since others may still send to it.
  __device__ void meet() {
    if (!met_) ptx::barrier_cluster_wait_acquire();
    met_ = true;
  }

  __device__ std::uint32_t count() const { return 1u << (share_shift() + cut().cluster_shift); }
  /// Sends pair i of count() to the block that owns it. All threads of a block must be through with
  /// add_up of the turn before (a barrier of the block): what they send tells the other blocks that
  /// the other mailbox, which these fill next, has been read.
  __device__ void send(std::uint32_t i, float low, float high) const {
    const std::uint32_t to = i >> share_shift();
    mailbox(buffer_).send(to, place(rank_, i - (to << share_shift())), low, high);
  }
  /// All threads call it once for each time they sent. Calls take(i, low, high) for the pairs that
  /// this block owns, summed over the blocks in their order.
  template <class Take>
  __device__ void add_up(Take&& take) {
    const Mailbox box = mailbox(buffer_);
    box.wait(parity_);
    if (threadIdx.x == 0) expect(buffer_);
    for (std::uint32_t i = threadIdx.x; i < 1u << share_shift(); i += packed_threads) {
      float low = 0.0f, high = 0.0f;
#pragma unroll 1
      for (std::uint32_t block = 0; block < 1u << cut().cluster_shift; block += 2) {
        const uint2 one = ptx::ld_shared_v2(box.memory + place(block, i)),
                    next = ptx::ld_shared_v2(box.memory + place(block + 1, i));
        low = __fadd_rn(__fadd_rn(low, __uint_as_float(one.x)), __uint_as_float(next.x));
        high = __fadd_rn(__fadd_rn(high, __uint_as_float(one.y)), __uint_as_float(next.y));
      }
      take((rank_ << share_shift()) + i, low, high);
    }
    buffer_ ^= 1;
    if (buffer_ == 0) parity_ ^= 1;
  }

 private:
  __device__ const PackedCut& cut() const { return args_.cut; }
  __device__ Mailbox mailbox(int buffer) const {
    return {base_ + args_.shared.sums + 8 * count() * buffer,
            base_ + args_.shared.barriers + 8 * (packed_warps * cut().depth + 1 + buffer)};
  }
  __device__ void expect(int buffer) const { mailbox(buffer).expect(8 * count()); }
  /// Pairs that a block owns, as a power of two.
  __device__ int share_shift() const {
    return SumsShift + cut().rounds_shift + cut().groups_shift() - cut().cluster_shift;
  }
  /// Byte of a mailbox at which pair i of the owner's share from block `from` lies.
  __device__ std::uint32_t place(std::uint32_t from, std::uint32_t i) const {
    return 8 * ((from << share_shift()) + i);
  }

  const PackedArgs& args_;
  const std::uint32_t base_, rank_;
  bool met_ = false;
  int buffer_ = 0;
  std::uint32_t parity_ = 0;
};

}  // namespace microscale::cuda::few_rows
