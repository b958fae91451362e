// Special registers (PTX ISA, "Special Registers"): what a thread knows about itself.
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// Place of the thread in its block, threadIdx.
__device__ inline std::uint32_t mov_tid_x() {
  std::uint32_t v;
  asm("mov.u32 %0, %%tid.x;" : "=r"(v));
  return v;
}

__device__ inline std::uint32_t mov_tid_y() {
  std::uint32_t v;
  asm("mov.u32 %0, %%tid.y;" : "=r"(v));
  return v;
}

/// Place of the block in the grid, blockIdx.
__device__ inline std::uint32_t mov_ctaid_x() {
  std::uint32_t v;
  asm("mov.u32 %0, %%ctaid.x;" : "=r"(v));
  return v;
}

__device__ inline std::uint32_t mov_ctaid_y() {
  std::uint32_t v;
  asm("mov.u32 %0, %%ctaid.y;" : "=r"(v));
  return v;
}

/// Threads of a block, blockDim.
__device__ inline std::uint32_t mov_ntid_x() {
  std::uint32_t v;
  asm("mov.u32 %0, %%ntid.x;" : "=r"(v));
  return v;
}

__device__ inline std::uint32_t mov_ntid_y() {
  std::uint32_t v;
  asm("mov.u32 %0, %%ntid.y;" : "=r"(v));
  return v;
}

/// The multiprocessor that runs the thread. PTX lets it change, so every read is a read.
__device__ inline std::uint32_t mov_smid() {
  std::uint32_t v;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(v)::"memory");
  return v;
}

/// The warp's place on its multiprocessor, whose lowest two bits tell the scheduler. PTX lets it
/// change, so every read is a read.
__device__ inline std::uint32_t mov_warpid() {
  std::uint32_t v;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(v)::"memory");
  return v;
}

/// Cycles of this multiprocessor, low half.
__device__ inline std::uint32_t mov_clock() {
  std::uint32_t v;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(v)::"memory");
  return v;
}

}  // namespace microscale::ptx
