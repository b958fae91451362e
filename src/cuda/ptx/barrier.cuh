// Barriers of some warps of a block (PTX ISA, "Parallel Synchronization and Communication
// Instructions: bar"), and of all threads of a cluster ("barrier.cluster"; sm_90 and later). Number
// 0 of the former is __syncthreads().
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// "bar.sync": waits until `threads` threads, whole warps, have come to `barrier` (1 to 15).
__device__ inline void bar_sync(std::uint32_t barrier, std::uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// "bar.arrive": comes to `barrier` without waiting; of `threads`, those of bar_sync included.
__device__ inline void bar_arrive(std::uint32_t barrier, std::uint32_t threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// "barrier.cluster": arrives and waits; what threads did to shared memory before, all see.
__device__ inline void barrier_cluster() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;" ::
          : "memory");
}

}  // namespace microscale::ptx
