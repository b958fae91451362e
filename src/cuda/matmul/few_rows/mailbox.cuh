// Sums that blocks of a cluster send to one another's shared memory. What is sent ends at a barrier
// of the block that receives it, so nothing is fenced: a release to the cluster would wait for all
// that the sending warp has under way.
#pragma once

#include <cstdint>

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mbarrier.cuh"

namespace microscale::cuda::few_rows {

/// Every block of the cluster has the same one at the same addresses.
struct Mailbox {
  std::uint32_t memory, barrier;  // shared addresses, at multiples of 8

  /// One thread, before a fence and a barrier of the block.
  __device__ void init() const { ptx::mbarrier_init_shared(barrier, 1); }
  /// One thread, once a turn: so many bytes are to come.
  __device__ void expect(std::uint32_t bytes) const {
    ptx::mbarrier_arrive_expect_tx(barrier, bytes);
  }
  /// Two numbers to `offset` bytes into the mailbox of block `to` of the cluster, which has begun.
  __device__ void send(std::uint32_t to, std::uint32_t offset, float x, float y) const {
    ptx::st_async_shared_cluster_v2_f32(ptx::mapa_shared_cluster(memory + offset, to), x, y,
                                        ptx::mapa_shared_cluster(barrier, to));
  }
  /// Until all bytes of a turn have come; parities alternate, the first is 0. wait_acquire also
  /// orders what else the senders wrote, and so empties the first-level cache: not for a loop.
  __device__ void wait(std::uint32_t parity) const { ptx::mbarrier_wait_parity(barrier, parity); }
  __device__ void wait_acquire(std::uint32_t parity) const {
    ptx::mbarrier_wait_parity_cluster(barrier, parity);
  }
};

}  // namespace microscale::cuda::few_rows
