// Bytes of two registers put together anew (PTX ISA, "prmt").
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

}  // namespace microscale::ptx
