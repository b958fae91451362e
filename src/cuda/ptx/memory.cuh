// Loads, stores and prefetches of global and shared memory (PTX ISA, "ld", "st", "prefetch",
// "createpolicy", "Memory Consistency Model"). Inputs are read once: no L1 line is kept for them.
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// 16 bytes, aligned.
__device__ inline uint4 ld_global_nc_no_allocate_v4(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

/// The same of a sector whose other half is read next.
__device__ inline uint4 ld_global_nc_v4(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

/// 4 bytes, aligned.
__device__ inline std::uint32_t ld_global_nc_b32(const void* address) {
  std::uint32_t v;
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(v) : "l"(address));
  return v;
}

/// 8 bytes, aligned.
__device__ inline uint2 ld_global_nc_v2(const void* address) {
  uint2 v;
  asm volatile("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(address));
  return v;
}

/// 16 bytes at an address of the shared window, aligned. Ordered by barriers like any other `asm
/// volatile`.
__device__ inline uint4 ld_shared_v4(std::uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address));
  return v;
}

/// 8 bytes, likewise.
__device__ inline uint2 ld_shared_v2(std::uint32_t address) {
  uint2 v;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address));
  return v;
}

/// 4 bytes, likewise.
__device__ inline std::uint32_t ld_shared_b32(std::uint32_t address) {
  std::uint32_t v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(address));
  return v;
}

/// 2 bytes and 1 byte, likewise; zeros above.
__device__ inline std::uint32_t ld_shared_u16(std::uint32_t address) {
  std::uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address));
  return v;
}
__device__ inline std::uint32_t ld_shared_u8(std::uint32_t address) {
  std::uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address));
  return v;
}

/// "prefetch": the line of an address into the second-level cache.
__device__ inline void prefetch_global_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

__device__ inline void st_shared_b32(std::uint32_t address, std::uint32_t v) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

__device__ inline void st_shared_f32(std::uint32_t address, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}

/// 8 bytes, aligned.
__device__ inline void st_shared_v2(std::uint32_t address, std::uint32_t x, std::uint32_t y) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(x), "r"(y) : "memory");
}

__device__ inline void st_shared_v4(std::uint32_t address, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ inline void st_global_v4(void* address, uint4 v) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ inline void st_global_v2(void* address, std::uint32_t x, std::uint32_t y) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(x), "r"(y) : "memory");
}

__device__ inline void st_global_b32(void* address, std::uint32_t x) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(address), "r"(x) : "memory");
}

/// "createpolicy.fractional": for lines that shall stay in the L2 when others must leave.
__device__ inline std::uint64_t createpolicy_fractional_l2_evict_last() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// For lines that shall leave the L2 before all others; as any other.
__device__ inline std::uint64_t createpolicy_fractional_l2_evict_first() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ inline std::uint64_t createpolicy_fractional_l2_evict_normal() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// "st.global.L2::cache_hint": 2, 4 or 8 bytes, aligned, under a policy.
__device__ inline void st_global_l2_cache_hint_b16(void* address, std::uint16_t x,
                                                   std::uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.b16 [%0], %1, %2;" ::"l"(address), "h"(x), "l"(policy)
               : "memory");
}
__device__ inline void st_global_l2_cache_hint_b32(void* address, std::uint32_t x,
                                                   std::uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.b32 [%0], %1, %2;" ::"l"(address), "r"(x), "l"(policy)
               : "memory");
}
__device__ inline void st_global_l2_cache_hint_v2(void* address, std::uint32_t x, std::uint32_t y,
                                                  std::uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.v2.b32 [%0], {%1, %2}, %3;" ::"l"(address), "r"(x), "r"(y),
               "l"(policy)
               : "memory");
}

// Pieces of 32 bytes at multiples of 32: sm_100 and later.

/// What is read once: no L1 line is kept for it.
__device__ inline void ld_global_nc_no_allocate_v8(std::uint32_t (&v)[8], const void* address) {
  asm volatile("ld.global.nc.L1::no_allocate.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]),
                 "=r"(v[7])
               : "l"(address));
}

/// What others will read soon: its line is the last to leave the L1.
__device__ inline void ld_global_nc_evict_last_v8(std::uint32_t (&v)[8], const void* address) {
  asm volatile("ld.global.nc.L1::evict_last.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]),
                 "=r"(v[7])
               : "l"(address));
}

/// "st.global" of 32 bytes, aligned to 32. sm_100 and later.
__device__ inline void st_global_v8(void* address, const std::uint32_t (&v)[8]) {
  asm volatile("st.global.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(address), "r"(v[0]),
               "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(v[4]), "r"(v[5]), "r"(v[6]), "r"(v[7])
               : "memory");
}

// Words by which blocks tell each other that they have written something. sm_70 and later.

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
