// Stages or slots in shared memory that some warps fill and others empty, as many as a kernel is
// told.
#pragma once

#include <cstdint>

#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"

namespace microscale::cuda {

/// `barriers`: 16 bytes of shared memory for each of `depth`, at a multiple of 8: those of full
/// ones, then those of empty ones.
class LineRing {
 public:
  __device__ LineRing(std::uint32_t barriers, int depth) : place_{barriers, 8u * depth} {
    ptx::keep_in_place(place_);  // or it is computed anew each time, from constant memory
  }

  /// A warp; the others come after a barrier of the block. Threads that fill one, those that read.
  __device__ void init(std::uint32_t fillers, std::uint32_t readers) const {
    if (ptx::elect_sync())  // several lanes would be a loop over them
#pragma unroll 1
      for (std::uint32_t at = 0; at < place_[1]; at += 8) {
        ptx::mbarrier_init_shared(place_[0] + at, fillers);
        ptx::mbarrier_init_shared(place_[0] + place_[1] + at, readers);
      }
    ptx::fence_mbarrier_init();
  }
  __device__ std::uint32_t at() const { return at_ / 8; }
  __device__ std::uint32_t full() const { return place_[0] + at_; }
  __device__ void wait_full() const { wait(full(), parity_); }
  __device__ void wait_empty() const { wait(empty(), parity_ ^ 1); }
  /// A whole warp has filled it, or read it. `read`: what was read there last, which has to come
  /// first, as in StageRing::release_behind.
  __device__ void arrive_full() const { arrive(full()); }
  __device__ void arrive_empty(std::uint32_t read) const {
    arrive(empty() | (read & (blockDim.z - 1)));
  }
  __device__ void next() {
    at_ += 8;
    if (at_ == place_[1]) at_ = 0, parity_ ^= 1;
  }

 private:
  __device__ std::uint32_t empty() const { return full() + place_[1]; }
  __device__ static void wait(std::uint32_t barrier, std::uint32_t parity) {
    ptx::mbarrier_wait_parity(barrier, parity);
  }
  __device__ static void arrive(std::uint32_t barrier) {
    __syncwarp();
    ptx::mbarrier_arrive(barrier);
  }
  std::uint32_t place_[2];             // of the barriers of full ones, and their bytes
  std::uint32_t at_ = 0, parity_ = 0;  // bytes
};

}  // namespace microscale::cuda
