// Which threads run, when, and with how many registers (PTX ISA, "elect.sync", "nanosleep",
// "setmaxnreg", "griddepcontrol", "bar"), and thread blocks of a cluster together. Barriers that
// count bytes: mbarrier.cuh.
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// True in one lane of the whole warp, always the same. What only that lane does, the assembler
/// knows to be done once: a bulk copy is one instruction there, and elsewhere a loop over the
/// lanes.
__device__ inline bool elect_sync() {
  std::uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xFFFFFFFF;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

/// "nanosleep": the warp leaves its scheduler to others for 0 to twice as many nanoseconds.
__device__ inline void nanosleep(std::uint32_t nanoseconds) {
  asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds) : "memory");
}

// How many registers a warp has: warpgroups of one block trade them. sm_90a, sm_100a and later
// families. All warps of a warpgroup execute it; the kernel has launch bounds.

/// "setmaxnreg.inc": waits until there are `Count` registers (24 to 256, in eights) a thread.
template <int Count>
__device__ inline void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

/// "setmaxnreg.dec": keeps `Count` a thread.
template <int Count>
__device__ inline void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

// Order between grids (sm_90 and later): a grid may be put onto the device while the one before it
// in its stream still runs, if it was launched so and that one agrees.

/// The next grid may be put onto the device when all blocks of this one have said so or are done.
__device__ inline void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;");
}

/// Returns when the grids before this one are done and what they wrote can be read.
__device__ inline void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Barriers of some warps of a block. Number 0 is __syncthreads().

/// "bar.sync": waits until `threads` threads, whole warps, have come to `barrier` (1 to 15).
__device__ inline void bar_sync(std::uint32_t barrier, std::uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// "bar.arrive": comes to `barrier` without waiting; of `threads`, those of bar_sync included.
__device__ inline void bar_arrive(std::uint32_t barrier, std::uint32_t threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// No instruction: what the compiler may not look through.

/// Keeps the compiler from moving what it does to `registers` across this place, as it may across a
/// fence or a wait, which name no registers; and from computing them anew behind it.
template <int Count>
__device__ inline void keep_in_place(float (&registers)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

template <int Count>
__device__ inline void keep_in_place(std::uint32_t (&registers)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// Thread blocks of a cluster together (PTX ISA, "barrier.cluster", "mapa", "st.async", "ld" with
// .shared::cluster). sm_90 and later.

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
