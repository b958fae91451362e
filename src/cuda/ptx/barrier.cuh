// Barriers of some warps of a block (PTX ISA, "Parallel Synchronization and Communication
// Instructions: bar"). Number 0 is __syncthreads().
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// "bar.sync": waits until `threads` threads, whole warps, have come to `barrier` (1 to 15).
__device__ inline void bar_sync(std::uint32_t barrier, std::uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace microscale::ptx
