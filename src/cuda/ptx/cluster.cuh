// Thread blocks of a cluster together (PTX ISA, "barrier.cluster", "mapa", "st.async", "ld" with
// .shared::cluster). sm_90 and later.
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// "barrier.cluster": arrives and waits; what threads did to shared memory before, all see.
__device__ inline void barrier_cluster() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;" ::
          : "memory");
}

/// "barrier.cluster": all threads of the cluster; what each wrote before it, the others read behind
/// it.
__device__ inline void barrier_cluster_arrive_release() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void barrier_cluster_wait_acquire() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// The same arrival, but nothing that was written is ordered by it.
__device__ inline void barrier_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/// "mapa": where block `rank` of the cluster has what is at `address` of this block's shared
/// memory.
__device__ inline std::uint32_t mapa_shared_cluster(std::uint32_t address, std::uint32_t rank) {
  std::uint32_t mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

/// The number of this block in its cluster.
__device__ inline std::uint32_t mov_cluster_ctarank() {
  std::uint32_t v;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(v));
  return v;
}

/// "st.async": two numbers to the shared memory of a block of the cluster, aligned to eight bytes,
/// where they count as eight bytes of that block's `mbarrier`; who waits for it sees them. Both
/// addresses as mapa gives them.
__device__ inline void st_async_shared_cluster_v2_f32(std::uint32_t address, float x, float y,
                                                      std::uint32_t mbarrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::
          "r"(address),
      "f"(x), "f"(y), "r"(mbarrier)
      : "memory");
}

/// The same of four numbers, aligned to 16 bytes.
__device__ inline void st_async_shared_cluster_v4_f32(std::uint32_t address, const float (&v)[4],
                                                      std::uint32_t mbarrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(address),
      "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(mbarrier)
      : "memory");
}

/// 16 bytes of the shared memory of any block of the cluster, aligned.
__device__ inline float4 ld_shared_cluster_v4(std::uint32_t address) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

}  // namespace microscale::ptx
