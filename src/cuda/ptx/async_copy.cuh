// Copies from global to shared memory that hold no register while they are under way (PTX ISA,
// "Data Movement and Conversion Instructions: Asynchronous copy").
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// 16 bytes, both addresses aligned; past L1.
__device__ inline void cp_async_cg_shared_global(std::uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

/// As above. The last 16 - `bytes` of them are not read: zeros.
__device__ inline void cp_async_cg_shared_global(std::uint32_t shared, const void* global,
                                                 std::uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
               "r"(bytes)
               : "memory");
}

/// Until all copies of this thread have arrived; a barrier then shows them to the other threads.
__device__ inline void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace microscale::ptx
