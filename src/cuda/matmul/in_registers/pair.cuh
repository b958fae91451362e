// Two blocks of a cluster that have ranges of k of one tile of d, side by side (WideCut::paired):
// each sends the other its sums of the other's half of the rows of a, and has those of its own
// half, of both ranges, then. So what passes through memory, if there are more ranges, is less than
// half, and each stores half a tile.
#pragma once

#include <cstdint>

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"

namespace microscale::cuda {

/// `Warpgroups` that multiply have `Sums` accumulators a thread each.
template <int Warpgroups, int Sums>
class WidePair {
 public:
  static constexpr int half = Sums / 2;
  static constexpr std::uint32_t bytes = 128 * half * 4;  // that a warpgroup is sent

  /// `barriers`: eight bytes of shared memory for each warpgroup.
  __device__ explicit WidePair(std::uint32_t barriers) : barriers_(barriers) {}

  /// One thread, before a fence; this one calls arrive() behind that, the others any time.
  __device__ void init() const {
    for (int i = 0; i < Warpgroups; ++i) {
      ptx::mbarrier_init_shared(barriers_ + 8 * i, 1);
      ptx::mbarrier_arrive_expect_tx(barriers_ + 8 * i, bytes);
    }
  }
  __device__ static void arrive() { ptx::barrier_cluster_arrive_relaxed(); }
  /// Before anything is sent, and before a thread that sends nothing ends: all have arrived.
  __device__ static void meet() {
    __syncwarp();
    ptx::barrier_cluster_wait_acquire();
  }

  /// A warpgroup, once: the sums of half `own` of its accumulators, of both blocks. `at`: `bytes`
  /// of this block's shared memory, of the warpgroup alone, to which the other block sends.
  __device__ void exchange(const float (&d)[Sums], std::uint32_t own, std::uint32_t at,
                           float (&sums)[half]) const {
    const std::uint32_t barrier = barriers_ + 8 * (threadIdx.x / 128),
                        here = at + threadIdx.x % 128 * 16,
                        there = ptx::mapa_shared_cluster(here, own ^ 1),
                        its_barrier = ptx::mapa_shared_cluster(barrier, own ^ 1);
    meet();
#pragma unroll
    for (int i = 0; i < half; i += 4) {
      float sent[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sent[j] = own == 0 ? d[half + i + j] : d[i + j];
        sums[i + j] = own == 0 ? d[i + j] : d[half + i + j];
      }
      ptx::st_async_shared_cluster_v4_f32(there + 512 * i, sent, its_barrier);
    }
    ptx::mbarrier_wait_parity_cluster(barrier, 0);
#pragma unroll
    for (int i = 0; i < half; i += 4) {
      const uint4 more = ptx::ld_shared_v4(here + 512 * i);
      sums[i] = __fadd_rn(sums[i], __uint_as_float(more.x));
      sums[i + 1] = __fadd_rn(sums[i + 1], __uint_as_float(more.y));
      sums[i + 2] = __fadd_rn(sums[i + 2], __uint_as_float(more.z));
      sums[i + 3] = __fadd_rn(sums[i + 3], __uint_as_float(more.w));
    }
  }

 private:
  std::uint32_t barriers_;
};

}  // namespace microscale::cuda
