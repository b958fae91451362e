// Words of global memory by which blocks tell each other that they have written something (PTX ISA,
// "ld", "st", "Memory Consistency Model"). sm_70 and later.
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// What the thread has written, or ordered in front of this by a barrier, is seen by a thread that
/// reads this value with ld_acquire.
__device__ inline void st_release_gpu_global_b64(std::uint64_t* address, std::uint64_t v) {
  asm volatile("st.release.gpu.global.b64 [%0], %1;" ::"l"(address), "l"(v) : "memory");
}

__device__ inline std::uint64_t ld_acquire_gpu_global_b64(const std::uint64_t* address) {
  std::uint64_t v;
  asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(v) : "l"(address) : "memory");
  return v;
}

}  // namespace microscale::ptx
