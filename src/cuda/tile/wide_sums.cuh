// Sums of ranges of k of one tile of d, from several blocks, in the kernels for many rows: each
// puts its own to memory, and whoever finds that it is the last adds them up in the order of k.
#pragma once

#include <cstdint>

#include "cuda/ptx/barrier.cuh"
#include "cuda/ptx/memory.cuh"

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
/// Of all ranges of k, `apart` floats from one to the next, in their order.
template <int Count>
__device__ void add_sums(float (&d)[Count], const float* from, std::int64_t apart, int splits) {
  constexpr int at_once = Count <= 32 ? 2 : 1;
  get_sums(d, from);
#pragma unroll at_once
  for (int split = 1; split < splits; ++split) {
    from += apart;
    float more[Count];
    get_sums(more, from);
#pragma unroll
    for (int i = 0; i < Count; ++i) d[i] = __fadd_rn(d[i], more[i]);
  }
}

/// Whether all other ranges of this warpgroup's part of a tile have put their sums: `counter`
/// counts them, `word` is four bytes of shared memory for this warpgroup alone. Its 128 threads
/// call it when they have put theirs. One of them orders what all have written, and will read,
/// around the counter.
__device__ inline bool is_last_range(std::uint32_t* counter, int splits, std::uint32_t word) {
  const std::uint32_t barrier = 1 + threadIdx.x / 128;
  ptx::bar_sync(barrier, 128);
  if (threadIdx.x % 128 == 0) {
    __threadfence();
    const std::uint32_t before = atomicAdd(counter, 1u);
    __threadfence();
    ptx::st_shared_b32(word, before);
  }
  ptx::bar_sync(barrier, 128);
  return ptx::ld_shared_b32(word) + 1 == static_cast<std::uint32_t>(splits);
}

}  // namespace microscale::cuda
