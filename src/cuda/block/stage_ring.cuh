// A ring of stages in shared memory between a warp that copies and warps that compute: the former
// waits for a stage's `empty` barrier, starts copies that end in its `full` barrier, the latter the
// other way round. Blocks of a cluster that copy to each other share the stages' fate: a stage is
// empty when the readers of all blocks are through with it.
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.cuh"

namespace microscale::cuda {

/// `barriers`: 16 bytes of shared memory for each of `Stages`, at a multiple of 8. `Blocks` of a
/// cluster.
template <int Stages, int Blocks = 1>
class StageRing {
 public:
  __device__ explicit StageRing(std::uint32_t barriers) : barriers_(barriers) {}

  /// One thread of the block; the others come after a barrier. `readers`: warps of a block;
  /// `writers`: arrivals that make a stage full, when the bytes expected are there, too.
  __device__ void init(std::uint32_t readers, std::uint32_t writers = 1) const {
    init_arrivals(readers * (Blocks == 1 ? 32 : Blocks), writers);
  }
  /// The same; `releases`: arrivals that make a stage empty.
  __device__ void init_arrivals(std::uint32_t releases, std::uint32_t writers) const {
#pragma unroll 1
    for (int i = 0; i < Stages; ++i) {
      ptx::mbarrier_init_shared(barriers_ + 8 * i, writers);
      ptx::mbarrier_init_shared(barriers_ + 8 * (Stages + i), releases);
    }
    ptx::fence_mbarrier_init();
  }

  __device__ int stage() const { return stage_; }
  __device__ std::uint32_t parity() const { return parity_; }
  __device__ std::uint32_t full() const { return barriers_ + 8 * stage_; }
  __device__ std::uint32_t empty() const { return barriers_ + 8 * (Stages + stage_); }
  __device__ void wait_full() const { wait(full(), parity_); }
  /// A writer: until its readers of a turn ago are through with it.
  __device__ void wait_empty() const { wait(empty(), parity_ ^ 1); }
  /// Until its readers of this turn are.
  __device__ void wait_released() const { wait(empty(), parity_); }
  /// Whether there would be no wait.
  __device__ bool is_empty() const { return ptx::mbarrier_test_wait_parity(empty(), parity_ ^ 1); }
  __device__ void next() {
    if (++stage_ == Stages) stage_ = 0, parity_ ^= 1;
  }

  /// A warp needs the stage no more, where `guard` is set: what it read there has come (or see
  /// below). Each lane arrives for itself; for blocks of a cluster, one each. No branch: the
  /// assembler would wait for all products of wgmma in front of one.
  __device__ void release(int stage, bool guard) const {
    __syncwarp();
    const std::uint32_t barrier = barriers_ + 8 * (Stages + stage);
    if constexpr (Blocks == 1) {
      ptx::mbarrier_arrive(barrier, guard);
    } else {
      static_assert(Blocks <= 32, "a warp has a lane for each block");
      ptx::mbarrier_arrive_cluster(barrier, threadIdx.x % 32 % Blocks,
                                   guard && threadIdx.x % 32 < Blocks);
    }
  }

  /// The same when `read` has come, what was read there last. For the assembler an arrival reads no
  /// register, so it goes in front of what uses them, and does not wait in line with reads; as part
  /// of its address, by way of a 0 that the assembler does not know (blocks are flat), it waits.
  __device__ void release_behind(int stage, std::uint32_t read) const {
    release(stage | static_cast<int>(read & (blockDim.z - 1)), true);
  }

 private:
  __device__ static void wait(std::uint32_t barrier, std::uint32_t parity) {
    ptx::mbarrier_wait_parity(barrier, parity);
  }
  std::uint32_t barriers_;
  int stage_ = 0;
  std::uint32_t parity_ = 0;
};

}  // namespace microscale::cuda
