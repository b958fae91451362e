// What stands around the products of a warpgroup, four warps of which the first is a multiple of
// four (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Operation"). sm_90a. All
// 128 threads execute each of these. The products: wgmma_f16.cuh, wgmma_e4m3.cuh.
#pragma once

namespace microscale::ptx {

/// "wgmma.fence": accumulators and parts of A that this warp has touched are safe for the products
/// that follow. Before the first one, and whenever other instructions have had such a register.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/// "wgmma.commit_group": the products since the last one become a group.
__device__ inline void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// "wgmma.wait_group": until at most `Pending` groups are under way. Only then may the registers of
/// the others be touched and the shared memory that they read be overwritten.
template <int Pending>
__device__ inline void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// "fence.proxy.async": what this thread has stored to shared memory, products and bulk copies see
/// after the next barrier.
__device__ inline void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace microscale::ptx
