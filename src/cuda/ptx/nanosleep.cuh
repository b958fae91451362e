// Waiting for a while (PTX ISA, "nanosleep"). sm_70 and later.
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// The warp leaves its scheduler to others for 0 to twice as many nanoseconds.
__device__ inline void nanosleep(std::uint32_t nanoseconds) {
  asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds) : "memory");
}

}  // namespace microscale::ptx
