// Copies from global to shared memory that the thread does not wait for (PTX ISA, "Data Movement
// and Conversion Instructions: Asynchronous copy", "cp.async.bulk.tensor"). sm_80 and later; bulk
// and tensor copies sm_90 and later. Shared addresses are 32-bit, as __cvta_generic_to_shared gives
// them.
#pragma once

#include <cstdint>

#include "cuda/device/kernel_types.hpp"

namespace microscale::ptx {

/// "cp.async": 16 bytes, both sides aligned to 16; .cg keeps no L1 line.
__device__ inline void cp_async_cg_shared_global_16(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// As above. The last 16 - `bytes` of them are not read: zeros.
__device__ inline void cp_async_cg_shared_global_16(std::uint32_t to, const void* from,
                                                    std::uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

/// "cp.async": the same, and the second-level cache fetches the 128 bytes around.
__device__ inline void cp_async_cg_shared_global_l2_128b_16(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
               : "memory");
}

/// "cp.async": 4 bytes, both sides aligned to 4.
__device__ inline void cp_async_ca_shared_global_4(std::uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

/// "cp.async": 8 bytes, both sides aligned to 8. The last 8 - `bytes` of them are not read: zeros.
__device__ inline void cp_async_ca_shared_global_8(std::uint32_t to, const void* from,
                                                   std::uint32_t bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

/// "cp.async.commit_group": the copies of this thread since the last one become a group.
__device__ inline void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// "cp.async.wait_group": waits until at most `Pending` groups of this thread are under way.
template <int Pending>
__device__ inline void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

/// "cp.async.bulk": `bytes` (a multiple of 16, both sides aligned to 16) by the copy engine, which
/// reports them to the mbarrier when they have arrived.
__device__ inline void cp_async_bulk_shared_cluster_global_mbarrier(std::uint32_t to,
                                                                    const void* from,
                                                                    std::uint32_t bytes,
                                                                    std::uint32_t mbarrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(mbarrier)
      : "memory");
}

/// The same under a policy of the second-level cache.
__device__ inline void cp_async_bulk_shared_cluster_global_mbarrier_l2_cache_hint(
    std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t mbarrier,
    std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(mbarrier), "l"(policy)
      : "memory");
}

/// The same to the blocks of the cluster that `blocks` names, bit i block i: each at the same
/// places of its shared memory. sm_90a and later families.
__device__ inline void cp_async_bulk_shared_cluster_global_mbarrier_multicast(
    std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t mbarrier,
    std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(mbarrier), "h"(blocks)
      : "memory");
}

/// "cp.async.bulk.prefetch": `bytes` (a multiple of 16, aligned to 16) of global memory into the
/// second-level cache, under a policy.
__device__ inline void cp_async_bulk_prefetch_l2_global_l2_cache_hint(const void* from,
                                                                      std::uint32_t bytes,
                                                                      std::uint64_t policy) {
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(from),
               "r"(bytes), "l"(policy)
               : "memory");
}

/// "cp.async.mbarrier.arrive.noinc": an arrival, counted as any other, when all copies that this
/// thread has started are there.
__device__ inline void cp_async_mbarrier_arrive_noinc(std::uint32_t mbarrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(mbarrier) : "memory");
}

/// "cp.async.wait_all": until all copies of this thread have arrived; a barrier then shows them to
/// the other threads.
__device__ inline void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// "fence.proxy.async": what this thread has stored to shared memory, products and bulk copies see
/// after the next barrier.
__device__ inline void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Boxes of a tensor by the copy engine, which reports their bytes, zeros included, to an mbarrier
// when they have arrived. The destination is a multiple of 128 bytes (with a swizzle of 128 bytes,
// of 1024). `map` is a kernel's parameter; coordinates are in elements, innermost first.

/// "prefetch.tensormap": the copy engine fetches the descriptor.
__device__ inline void prefetch_tensormap(const cuda::TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ inline void cp_async_bulk_tensor_2d_shared_cluster_global_mbarrier(
    std::uint32_t to, const cuda::TensorMap& map, std::int32_t at0, std::int32_t at1,
    std::uint32_t mbarrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(at0), "r"(at1), "r"(mbarrier)
      : "memory");
}

__device__ inline void cp_async_bulk_tensor_4d_shared_cluster_global_mbarrier(
    std::uint32_t to, const cuda::TensorMap& map, std::int32_t at0, std::int32_t at1,
    std::int32_t at2, std::int32_t at3, std::uint32_t mbarrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(&map), "r"(at0), "r"(at1), "r"(at2), "r"(at3), "r"(mbarrier)
      : "memory");
}

/// The same under a policy of the second-level cache.
__device__ inline void cp_async_bulk_tensor_4d_shared_cluster_global_mbarrier_l2_cache_hint(
    std::uint32_t to, const cuda::TensorMap& map, std::int32_t at0, std::int32_t at1,
    std::int32_t at2, std::int32_t at3, std::uint32_t mbarrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
      "l"(&map), "r"(at0), "r"(at1), "r"(at2), "r"(at3), "r"(mbarrier), "l"(policy)
      : "memory");
}

/// "cp.async.bulk.prefetch.tensor": the box into the second-level cache, also under a policy.
__device__ inline void cp_async_bulk_prefetch_tensor_4d_l2_global(const cuda::TensorMap& map,
                                                                  std::int32_t at0,
                                                                  std::int32_t at1,
                                                                  std::int32_t at2,
                                                                  std::int32_t at3) {
  asm volatile(
      "cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(&map),
      "r"(at0), "r"(at1), "r"(at2), "r"(at3)
      : "memory");
}
__device__ inline void cp_async_bulk_prefetch_tensor_4d_l2_global_l2_cache_hint(
    const cuda::TensorMap& map, std::int32_t at0, std::int32_t at1, std::int32_t at2,
    std::int32_t at3, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.prefetch.tensor.4d.L2.global.tile.L2::cache_hint "
      "[%0, {%1, %2, %3, %4}], %5;" ::"l"(&map),
      "r"(at0), "r"(at1), "r"(at2), "r"(at3), "l"(policy)
      : "memory");
}

}  // namespace microscale::ptx
