// One lane of a warp (PTX ISA, "elect.sync"). sm_90 and later.
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// True in one lane of the whole warp, always the same. What only that lane does, the assembler
/// knows to be done once: a bulk copy is one instruction there, and elsewhere a loop over the
/// lanes.
__device__ inline bool elect_sync() {
  std::uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xFFFFFFFF;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

}  // namespace microscale::ptx
