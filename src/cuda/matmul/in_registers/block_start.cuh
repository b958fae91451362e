// Where warps that bring operands wait until the barriers in shared memory are there. They come
// when they know what they are to do, so that this is not waited for before; the warp that makes
// the barriers only tells. Each role has a number of its own: whoever shares one comes to it in the
// same place of the program, as tools that look for divergent threads want it.
#pragma once

#include <cstdint>

#include "cuda/ptx/control.cuh"

namespace microscale::cuda {

/// `Threads` of a role wait at barrier `Number`.
template <std::uint32_t Number, int Threads>
class BlockStart {
 public:
  /// One warp, not among these.
  __device__ static void tell() { ptx::bar_arrive(Number, 32 + Threads); }
  __device__ void meet() {
    if (!met_) ptx::bar_sync(Number, 32 + Threads);
    met_ = true;
  }

 private:
  bool met_ = false;
};

}  // namespace microscale::cuda
