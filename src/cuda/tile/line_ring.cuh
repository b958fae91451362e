// Stages or slots in shared memory that some warps fill and others empty, as many as a kernel is
// told.
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.cuh"

namespace microscale::cuda {

/// `barriers`: 16 bytes of shared memory for each of `depth`, at a multiple of 8: those of full
/// ones, then those of empty ones.
class LineRing {
 public:
  __device__ LineRing(std::uint32_t barriers, int depth) : barriers_(barriers), depth_(depth) {}

  /// A warp; the others come after a barrier of the block.
  __device__ void init(std::uint32_t fillers, std::uint32_t readers) const {
    for (int i = static_cast<int>(threadIdx.x % 32); i < depth_; i += 32) {
      ptx::mbarrier_init_shared(barriers_ + 8 * i, fillers);
      ptx::mbarrier_init_shared(barriers_ + 8 * (depth_ + i), readers);
    }
    ptx::fence_mbarrier_init();
  }
  __device__ int at() const { return at_; }
  __device__ std::uint32_t full() const { return barriers_ + 8 * at_; }
  __device__ void wait_full() const { wait(full(), parity_); }
  __device__ void wait_empty() const { wait(empty(), parity_ ^ 1); }
  /// A whole warp has filled it, or read it.
  __device__ void arrive_full() const { arrive(full()); }
  __device__ void arrive_empty() const { arrive(empty()); }
  __device__ void next() {
    if (++at_ == depth_) at_ = 0, parity_ ^= 1;
  }

 private:
  __device__ std::uint32_t empty() const { return full() + 8 * depth_; }
  __device__ static void wait(std::uint32_t barrier, std::uint32_t parity) {
    while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
    }
  }
  __device__ static void arrive(std::uint32_t barrier) {
    __syncwarp();
    ptx::mbarrier_arrive(barrier, threadIdx.x % 32 == 0);
  }
  std::uint32_t barriers_;
  int depth_, at_ = 0;
  std::uint32_t parity_ = 0;
};

}  // namespace microscale::cuda
