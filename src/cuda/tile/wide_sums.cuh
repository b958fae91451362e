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
/// To the sums of the first range those of the others, in their order: of the second at `from`,
/// `apart` floats from one to the next.
template <int Count>
__device__ void add_sums(float (&d)[Count], const float* from, std::int64_t apart,
                         std::uint32_t ranges) {
  constexpr int at_once = Count <= 32 ? 2 : 1, piece = Count <= 64 ? Count : 64;
#pragma unroll at_once
  for (std::uint32_t range = 1; range < ranges; ++range, from += apart)
#pragma unroll
    for (int first = 0; first < Count; first += piece) {
      float more[piece];
      get_sums(more, from + first * 128);
#pragma unroll
      for (int i = 0; i < piece; ++i) d[first + i] = __fadd_rn(d[first + i], more[i]);
    }
}

/// Counts the ranges of a warpgroup's part of a tile whose sums have been put.
class RangeCounter {
 public:
  /// `word`: four bytes of shared memory for this warpgroup alone.
  __device__ RangeCounter(std::uint32_t* counter, std::uint32_t word)
      : counter_(counter), word_(word) {}

  /// How many there were, before `more` are counted. The warpgroup's 128 threads call it when they
  /// have put theirs, if any; one of them orders what all have written, and will read, around the
  /// counter.
  __device__ std::uint32_t count(std::uint32_t more) const {
    const std::uint32_t barrier = 1 + threadIdx.x / 128;
    ptx::bar_sync(barrier, 128);
    if (threadIdx.x % 128 == 0) {
      __threadfence();
      const std::uint32_t before = atomicAdd(counter_, more);
      __threadfence();
      ptx::st_shared_b32(word_, before);
    }
    ptx::bar_sync(barrier, 128);
    return ptx::ld_shared_b32(word_);
  }

 private:
  std::uint32_t* counter_;
  std::uint32_t word_;
};

}  // namespace microscale::cuda
