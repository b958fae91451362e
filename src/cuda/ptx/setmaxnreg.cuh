// How many registers a warp has (PTX ISA, "setmaxnreg"): warpgroups of one block trade them.
// sm_90a, sm_100a and later families. All warps of a warpgroup execute it; the kernel has launch
// bounds.
#pragma once

namespace microscale::ptx {

/// "setmaxnreg.inc": waits until there are `Count` registers (24 to 256, in eights) a thread.
template <int Count>
__device__ inline void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

/// "setmaxnreg.dec": keeps `Count` a thread.
template <int Count>
__device__ inline void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

}  // namespace microscale::ptx
