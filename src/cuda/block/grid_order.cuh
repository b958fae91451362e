// What blocks wait for besides each other: the grid in front, and flags that other blocks set.
#pragma once

#include <cstdint>

#include "cuda/ptx/control.cuh"
#include "cuda/ptx/memory.cuh"

namespace microscale::cuda {

/// Kernels are launched so that they overlap the end of the grid before them (Device::launch): the
/// next one's blocks take the places that this one's leave, about a microsecond sooner. No memory
/// is read or written before this, though it may be brought to the second-level cache; but for
/// weights that the caller calls constant (MatmulOptions), copied to shared memory.
__device__ inline void follow_previous_grid() {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
}

// Flags by which blocks of a grid tell others of it, or of grids behind it, that something is so,
// as that they have put parts of something to memory: a word each, which may hold anything before,
// and says so when it holds the call's ticket, a number that no other call has
// (cuda/device/kernels.hpp).

class TicketFlags {
 public:
  /// `first`: of the first part, the others `apart` words further each.
  __device__ TicketFlags(std::uint64_t* first, int apart, std::uint64_t ticket)
      : first_(first), apart_(apart), ticket_(ticket) {}

  /// By one thread, behind a barrier of those that have put the part; by any, where there is none.
  __device__ void set(int part) const { ptx::st_release_gpu_global_b64(word(part), ticket_); }
  /// Who finds it set sees the part, and so do those who pass a barrier with that thread then.
  __device__ bool is_set(int part) const {
    return ptx::ld_acquire_gpu_global_b64(word(part)) == ticket_;
  }
  /// When no block waits for it any more: a graph runs again with the ticket it was captured with.
  __device__ void forget(int part) const { *word(part) = 0; }

 private:
  __device__ std::uint64_t* word(int part) const { return first_ + part * apart_; }

  std::uint64_t* first_;
  int apart_;
  std::uint64_t ticket_;
};

}  // namespace microscale::cuda
