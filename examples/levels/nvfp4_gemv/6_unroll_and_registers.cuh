// Level 6: level 3 with other numbers: unrolled 8 times, 256 threads a block, 64 registers a thread
// allowed, 24 at most. The article's attempt 11: nothing, or 5 to 87 % slower when unrolled.
//
// The same loads and bits. What changes is how many warps fit (a multiprocessor has 65,536
// registers, and 64 places: 32 registers a thread are enough for all of them) and how many loads a
// warp has under way. nvcc 13.0 gives level 3 just 32 on sm_90a, the winners' budget; there is
// nothing to gain from fewer, and 24 spill.
#pragma once

#include "3_warp_per_row.cuh"

namespace levels {

extern "C" __global__ void gemv_6_unroll_8(GemvArgs args) { warp_per_row<8>(args); }

extern "C" __global__ void __launch_bounds__(256) gemv_6_block_256(GemvArgs args) {
  warp_per_row<4>(args);
}

/// Eight blocks of 128 threads have 64 registers a thread: the compiler may spend them.
extern "C" __global__ void __launch_bounds__(128, 8) gemv_6_registers_64(GemvArgs args) {
  warp_per_row<4>(args);
}

extern "C" __global__ void __maxnreg__(24) gemv_6_registers_24(GemvArgs args) {
  warp_per_row<4>(args);
}

}  // namespace levels
