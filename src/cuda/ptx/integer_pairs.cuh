// Arithmetic on two 16-bit integers in one register (PTX ISA, "Integer arithmetic instructions").
// sm_90 and later, where an addition and a maximum behind it are one instruction.
#pragma once

#include <cstdint>

namespace microscale::ptx {

__device__ inline std::uint32_t add_s16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("add.s16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

__device__ inline std::uint32_t max_s16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.s16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

__device__ inline std::uint32_t min_s16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("min.s16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

/// The maximum, and at least 0.
__device__ inline std::uint32_t max_relu_s16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.relu.s16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

}  // namespace microscale::ptx
