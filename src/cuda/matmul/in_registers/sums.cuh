// Sums of ranges of k of one tile of d, from several blocks, in the kernels for many rows: each
// puts its own to memory, and the block that has the last range adds them to its own. It waits for
// them; but blocks in front of it have begun before it, and put theirs before they wait for anybody
// (args.hpp).
#pragma once

#include <cstdint>

#include "cuda/block/grid_order.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"

namespace microscale::cuda::in_registers {

/// The accumulators of a warpgroup in memory: four registers of a thread, side by side.
template <int Count>
__device__ void put_sums(const float (&d)[Count], float* to) {
#pragma unroll
  for (int i = 0; i < Count; i += 4)
    ptx::st_global_v4(to + i * 128 + threadIdx.x % 128 * 4,
                      make_uint4(__float_as_uint(d[i]), __float_as_uint(d[i + 1]),
                                 __float_as_uint(d[i + 2]), __float_as_uint(d[i + 3])));
}
template <int Count>
__device__ void get_sums(float (&d)[Count], const float* from) {
#pragma unroll
  for (int i = 0; i < Count; i += 4) {
    const float4 four =
        __ldcg(reinterpret_cast<const float4*>(from + i * 128 + threadIdx.x % 128 * 4));
    d[i] = four.x, d[i + 1] = four.y, d[i + 2] = four.z, d[i + 3] = four.w;
  }
}
/// To a range's sums those of the ranges before, in their order: of the first at `from`, `apart`
/// floats from one to the next.
template <int Count>
__device__ void add_sums(float (&d)[Count], const float* from, std::int64_t apart,
                         std::uint32_t ranges) {
  constexpr int at_once = Count <= 32 ? 2 : 1, piece = Count <= 64 ? Count : 64;
#pragma unroll at_once
  for (std::uint32_t range = 0; range < ranges; ++range, from += apart)
#pragma unroll
    for (int first = 0; first < Count; first += piece) {
      float more[piece];
      get_sums(more, from + first * 128);
#pragma unroll
      for (int i = 0; i < piece; ++i) d[first + i] = __fadd_rn(d[first + i], more[i]);
    }
}

/// A warpgroup's 128 threads, when they have put their sums of a range.
__device__ inline void announce_sums(const TicketFlags& flags, std::uint32_t range) {
  ptx::bar_sync(1 + threadIdx.x / 128, 128);
  if (threadIdx.x % 128 == 0) flags.set(static_cast<int>(range));
}
/// Waits for those of the first `ranges`, 1 to 32, and forgets the flags. All 128 threads see what
/// has been put. Each warp polls by a vote: where lanes left a loop one by one, the assembler would
/// give up uniform registers in others.
__device__ inline void await_sums(const TicketFlags& flags, std::uint32_t ranges) {
  const auto range = static_cast<int>(min(threadIdx.x % 32, ranges - 1));
  while (__any_sync(0xFFFFFFFFu, !flags.is_set(range))) {
  }
  ptx::bar_sync(1 + threadIdx.x / 128, 128);
  if (threadIdx.x % 128 < ranges) flags.forget(range);
}

// ---
// Two blocks of a cluster that have ranges of k of one tile of d, side by side (TileCut::paired):
// each sends the other its sums of the other's half of the rows of a, and has those of its own
// half, of both ranges, then. So what passes through memory, if there are more ranges, is less than
// half, and each stores half a tile.

/// `Warpgroups` that multiply have `Sums` accumulators a thread each.
template <int Warpgroups, int Sums>
class BlockPair {
 public:
  static constexpr int half = Sums / 2;
  static constexpr std::uint32_t bytes = 128 * half * 4;  // that a warpgroup is sent

  /// `barriers`: eight bytes of shared memory for each warpgroup.
  __device__ explicit BlockPair(std::uint32_t barriers) : barriers_(barriers) {}

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

}  // namespace microscale::cuda::in_registers
