// What every kernel begins with.
#pragma once

#include "cuda/ptx/griddepcontrol.cuh"

namespace microscale::cuda {

/// Kernels are launched so that they overlap the end of the grid before them (Device::launch): the
/// next one's blocks take the places that this one's leave, about a microsecond sooner. No memory is
/// touched before this.
__device__ inline void follow_previous_grid() {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
}

/// The other way round: the next grid begins when the ones before this one are done, too. For
/// kernels whose follower reads what it did not make (tile/matmul_stream.cuh) before it waits.
__device__ inline void follow_previous_grid_alone() {
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
}

}  // namespace microscale::cuda
