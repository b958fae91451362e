// Matrices of eight 16-byte rows from shared memory to the fragments of matrix instructions, back,
// or transposed in registers (PTX ISA, "ldmatrix", "stmatrix", "movmatrix"). Lane 8 q + r names row
// r of matrix q, which goes to register q: lane 4 g + t gets of row g the bytes 4 t to 4 t + 3.
// Shared addresses are 32-bit, multiples of 16.
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// Four matrices, bytes as they are. sm_75 and later.
__device__ inline void ldmatrix_m8n8_x4_b16(std::uint32_t (&d)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address)
               : "memory");
}

/// Four matrices of 16-bit elements, each transposed: lane 4 g + t gets elements (2 t, g) and (2 t
/// + 1, g).
__device__ inline void ldmatrix_m8n8_x4_trans_b16(std::uint32_t (&d)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address)
               : "memory");
}

/// Four matrices; a row is 16 elements of four bits in 8 bytes, then 8 bytes that do not count.
/// Element i of it becomes byte i, in bits 3-0. sm_100f and sm_120f.
__device__ inline void ldmatrix_m8n16_x4_b8x16_b4x16_p64(std::uint32_t (&d)[4],
                                                         std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address)
               : "memory");
}

/// Four matrices the other way, bytes as they are. sm_90 and later.
__device__ inline void stmatrix_m8n8_x4_b16(std::uint32_t address, const std::uint32_t (&a)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
               : "memory");
}

/// Four matrices of 16-bit elements the other way, each transposed: lane 8 q + r names where row r
/// of matrix q goes; lane 4 g + t has elements (2 t, g) and (2 t + 1, g). sm_90 and later.
__device__ inline void stmatrix_m8n8_x4_trans_b16(std::uint32_t address,
                                                  const std::uint32_t (&a)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
      : "memory");
}

/// Row g of eight 16-bit elements is in lanes 4 g to 4 g + 3; column g will be. sm_75 and later.
__device__ inline std::uint32_t movmatrix_trans_m8n8_b16(std::uint32_t a) {
  std::uint32_t d;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
  return d;
}

}  // namespace microscale::ptx
