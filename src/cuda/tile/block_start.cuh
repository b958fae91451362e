// Where warps of a block that do different things first meet: the barriers in shared memory are
// there. Each comes when it knows what it is to do, so that this is not waited for before.
#pragma once

#include "cuda/ptx/barrier.cuh"

namespace microscale::cuda {

/// `Threads` come in all. A barrier of its own: `__syncthreads` may not stand in several places.
template <int Threads>
class BlockStart {
 public:
  __device__ void meet() {
    if (!met_) ptx::bar_sync(15, Threads);
    met_ = true;
  }

 private:
  bool met_ = false;
};

}  // namespace microscale::cuda
