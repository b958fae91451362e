// The one ring of the few-rows kernels: stages in shared memory, as many as a launch says, which
// copies or warps fill and other warps, or the same one, read.
#pragma once

#include <cstdint>

#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"

namespace microscale::cuda::few_rows {

/// Who reads what has been filled. `others`: other warps than those that fill, so a stage has two
/// barriers, one that says it is full and one that says it is empty. `itself`: the warp that fills,
/// which needs no more than a __syncwarp between reading a stage and filling it again.
enum class RingReaders { others, itself };

/// Position and parity of one reader or filler; each warp has its own copy.
template <RingReaders Readers>
class Ring {
  static constexpr bool has_empty = Readers == RingReaders::others;

 public:
  /// Shared memory that a stage's barriers take.
  static constexpr std::uint32_t barrier_bytes = has_empty ? 16 : 8;

  /// `barriers`: barrier_bytes for each of `depth` stages, at a multiple of 8: of full stages, then
  /// of empty ones.
  __device__ Ring(std::uint32_t barriers, int depth) : place_{barriers, 8u * depth} {
    ptx::keep_in_place(place_);  // or it is computed anew each time, from constant memory
  }

  /// A whole warp; other warps use the ring behind a fence_mbarrier_init and a barrier of the
  /// block. `fillers`, `readers`: threads that arrive for each stage.
  __device__ void init(std::uint32_t fillers, std::uint32_t readers = 0) const {
    if (ptx::elect_sync())  // several lanes would be a loop over them
#pragma unroll 1
      for (std::uint32_t at = 0; at < place_[1]; at += 8) {
        ptx::mbarrier_init_shared(place_[0] + at, fillers);
        if constexpr (has_empty) ptx::mbarrier_init_shared(place_[0] + place_[1] + at, readers);
      }
  }

  /// Where the next stage begins if each has so many bytes, from the first on.
  template <int StageBytes>
  __device__ std::uint32_t offset() const {
    static_assert(StageBytes % 8 == 0);
    return at_ * (StageBytes / 8);
  }
  /// Barrier of the next stage; of any stage.
  __device__ std::uint32_t full() const { return place_[0] + at_; }
  __device__ std::uint32_t full(int stage) const { return place_[0] + 8 * stage; }
  __device__ void wait_full() const { ptx::mbarrier_wait_parity(full(), parity_); }
  __device__ void next() {
    at_ += 8;
    if (at_ == place_[1]) at_ = 0, parity_ ^= 1;
  }

  __device__ void wait_empty() const requires(has_empty) {
    ptx::mbarrier_wait_parity(empty(), parity_ ^ 1);
  }
  /// A whole warp has filled the stage.
  __device__ void arrive_full() const { arrive(full()); }
  /// A whole warp has read the stage. `read`: what was read there last, which has to come first, as
  /// in StageRing::release_behind.
  __device__ void arrive_empty(std::uint32_t read) const requires(has_empty) {
    arrive(empty() | (read & (blockDim.z - 1)));
  }

 private:
  __device__ std::uint32_t empty() const { return full() + place_[1]; }
  __device__ static void arrive(std::uint32_t barrier) {
    __syncwarp();
    ptx::mbarrier_arrive(barrier);
  }
  std::uint32_t place_[2];             // where the barriers of full stages begin, and their bytes
  std::uint32_t at_ = 0, parity_ = 0;  // bytes; of the turn
};

using HandedRing = Ring<RingReaders::others>;
using OwnRing = Ring<RingReaders::itself>;

}  // namespace microscale::cuda::few_rows
