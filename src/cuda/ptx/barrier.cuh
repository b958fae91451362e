// Barriers among some threads of a block (PTX ISA, "barrier").
#pragma once

namespace microscale::ptx {

/// "barrier.sync": waits for `threads` threads (whole warps) at barrier `id`, 1 to 15; 0 is
/// __syncthreads().
__device__ inline void barrier_sync(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace microscale::ptx
