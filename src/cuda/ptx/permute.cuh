// Bytes and bits of registers put together anew (PTX ISA, "prmt", "lop3",
// "dp2a").
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// Byte i of the result is byte (selector >> 4 i) & 7 of {b, a}; where bit 3 of that nibble is set,
/// its sign bit eight times instead.
__device__ inline std::uint32_t prmt_b32(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  std::uint32_t d;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
  return d;
}

/// Of a where `mask` is set, else of b: "lop3" with table 0xCA, which the compiler leaves whole.
__device__ inline std::uint32_t lop3_select_b32(std::uint32_t mask, std::uint32_t a,
                                                std::uint32_t b) {
  std::uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(d) : "r"(mask), "r"(a), "r"(b));
  return d;
}

/// Both halves of a, times the lowest and the second byte of b, plus c: with 0x100 it is a >> 16,
/// by the unit that multiplies.
__device__ inline std::uint32_t dp2a_lo_u32_u32(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d;
  asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

}  // namespace microscale::ptx
