// What a kernel begins with, or does itself where it lets the next grid in later.
#pragma once

#include "cuda/ptx/control.cuh"

namespace microscale::cuda {

/// Kernels are launched so that they overlap the end of the grid before them (Device::launch): the
/// next one's blocks take the places that this one's leave, about a microsecond sooner. No memory
/// is read or written before this, though it may be brought to the second-level cache; but for
/// weights that the caller calls constant (MatmulOptions), copied to shared memory.
__device__ inline void follow_previous_grid() {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
}

}  // namespace microscale::cuda
