// Sums of ranges of k of one tile of d, from several blocks, in the kernels for many rows: each
// puts its own to memory, and the block that has the last range adds them to its own. It waits for
// them; but blocks in front of it have begun before it, and put theirs before they wait for anybody
// (wide_cut.hpp).
#pragma once

#include <cstdint>

#include "cuda/ptx/control.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/block/ticket_flags.cuh"

namespace microscale::cuda {

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

}  // namespace microscale::cuda
