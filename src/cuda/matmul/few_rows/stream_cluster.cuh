// How the blocks of a cluster that share k add their sums up
// (cuda/matmul/few_rows/stream_kernel.cuh): each block has an equal share to add up and is sent it
// by all, itself too, in one of two buffers in turn; the bytes end at a barrier. It takes them when
// it has the next ones ready to be sent, so nobody waits for a block that is less behind than that,
// and nothing has to be fenced.
#pragma once

#include <cstdint>

#include "cuda/matmul/args.hpp"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/matmul/few_rows/mailbox.cuh"
#include "cuda/matmul/few_rows/stream_plan.hpp"

namespace microscale::cuda {

/// Pairs of sums, 2^SumsShift of a row tile; every block sends count() of them at a time.
template <int SumsShift>
class StreamCluster {
 public:
  /// `base`: of the block's shared memory.
  __device__ StreamCluster(const MatmulStreamArgs& args, std::uint32_t base, std::uint32_t rank)
      : args_(args), base_(base), rank_(rank) {}

  /// One thread, before a fence and a barrier of the block; then all call arrive().
  __device__ void init() const {
    for (int buffer = 0; buffer < 2; ++buffer) {
      mailbox(buffer).init();
      expect(buffer);
    }
  }
  __device__ static void arrive() { ptx::barrier_cluster_arrive_relaxed(); }
  /// Before anything is sent, and before the block ends: the others have arrived.
  __device__ void meet() {
    if (!met_) ptx::barrier_cluster_wait_acquire();
    met_ = true;
  }

  __device__ std::uint32_t count() const { return 1u << (share_shift() + cut().cluster_shift); }
  /// Pair i of count(), to the block that adds it up. No thread of the block sends before all have
  /// added up what was sent before: whoever has it from all sends to the same buffer again.
  __device__ void send(std::uint32_t i, float low, float high) const {
    const std::uint32_t to = i >> share_shift();
    mailbox(buffer_).send(to, place(rank_, i - (to << share_shift())), low, high);
  }
  /// All threads, once for each time they sent: calls take(i, low, high) for this block's pairs,
  /// the blocks' sums in their order.
  template <class Take>
  __device__ void add_up(Take&& take) {
    const few_rows::Mailbox box = mailbox(buffer_);
    box.wait(parity_);
    if (threadIdx.x == 0) expect(buffer_);
    for (std::uint32_t i = threadIdx.x; i < 1u << share_shift(); i += stream_threads) {
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
  __device__ const StreamCut& cut() const { return args_.cut; }
  __device__ few_rows::Mailbox mailbox(int buffer) const {
    return {base_ + args_.shared.sums + 8 * count() * buffer,
            base_ + args_.shared.barriers + 8 * (stream_warps * cut().depth + 1 + buffer)};
  }
  __device__ void expect(int buffer) const { mailbox(buffer).expect(8 * count()); }
  /// Of a block's share.
  __device__ int share_shift() const {
    return SumsShift + cut().rounds_shift + cut().groups_shift() - cut().cluster_shift;
  }
  /// Where a mailbox has pair i of a share, from block `from`. Bytes.
  __device__ std::uint32_t place(std::uint32_t from, std::uint32_t i) const {
    return 8 * ((from << share_shift()) + i);
  }

  const MatmulStreamArgs& args_;
  const std::uint32_t base_, rank_;
  bool met_ = false;
  int buffer_ = 0;
  std::uint32_t parity_ = 0;
};

}  // namespace microscale::cuda
