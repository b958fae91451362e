// No instruction: what the compiler may not look through.
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// Keeps the compiler from moving what it does to `registers` across this place, as it may across a
/// fence or a wait, which name no registers; and from computing them anew behind it.
template <int Count>
__device__ inline void keep_in_place(float (&registers)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

template <int Count>
__device__ inline void keep_in_place(std::uint32_t (&registers)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

}  // namespace microscale::ptx
