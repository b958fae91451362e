// Global memory in pieces of 32 bytes (PTX ISA, "ld", .v8): sm_100 and later. Addresses are
// multiples of 32.
#pragma once

#include <cstdint>

namespace microscale::ptx {

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

}  // namespace microscale::ptx
