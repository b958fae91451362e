// Copies from global to shared memory that pass by the registers (PTX ISA, "Data Movement and
// Conversion Instructions: Asynchronous copy", non-bulk).
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// 16 bytes, both addresses aligned; `shared` is an address in the shared window.
__device__ inline void cp_async_cg_shared_global_16(std::uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

/// Waits for every earlier copy of this thread.
__device__ inline void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace microscale::ptx
