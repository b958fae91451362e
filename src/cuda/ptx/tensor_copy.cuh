// Copies of boxes of a tensor from global to shared memory by the copy engine, which reports their
// bytes, zeros included, to an mbarrier when they have arrived (PTX ISA, "cp.async.bulk.tensor").
// sm_90 and later. Shared addresses are 32-bit, the destination a multiple of 128 bytes (with a
// swizzle of 128 bytes, of 1024). `map` is a kernel's parameter; coordinates are in elements,
// innermost first.
#pragma once

#include <cstdint>

#include "cuda/device/tensor_map.hpp"

namespace microscale::ptx {

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

/// "cp.async.bulk.prefetch.tensor": the box into the second-level cache.
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

}  // namespace microscale::ptx
