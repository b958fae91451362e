// Barriers in shared memory that count arrivals and bytes (PTX ISA, "Parallel Synchronization and
// Communication Instructions: mbarrier"). sm_90 and later. `mbarrier` is the 32-bit shared address
// of eight bytes aligned to eight.
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// "mbarrier.init": a phase ends after `arrivals` arrivals and all bytes expected.
__device__ inline void mbarrier_init_shared(std::uint32_t mbarrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mbarrier), "r"(arrivals) : "memory");
}

/// "fence.mbarrier_init": the copy engine sees the initialised barrier.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// "mbarrier.arrive": one arrival; what this thread did before, those see who wait for the phase.
__device__ inline void mbarrier_arrive(std::uint32_t mbarrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mbarrier) : "memory");
}

/// The same where `guard` is set, without a branch.
__device__ inline void mbarrier_arrive(std::uint32_t mbarrier, bool guard) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %1, 0;\n"
      "@p mbarrier.arrive.shared::cta.b64 _, [%0];\n"
      "}" ::"r"(mbarrier),
      "r"(static_cast<int>(guard))
      : "memory");
}

/// "mbarrier.arrive.expect_tx": one arrival, and `bytes` more that copies will bring.
__device__ inline void mbarrier_arrive_expect_tx(std::uint32_t mbarrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes)
               : "memory");
}

#define MICROSCALE_MBARRIER_HAS_ENDED(instruction, done, mbarrier, parity) \
  asm volatile(                                                            \
      "{\n"                                                                \
      ".reg .pred p;\n" instruction                                        \
      ".shared::cta.b64 p, [%1], %2;\n"                                    \
      "selp.u32 %0, 1, 0, p;\n"                                            \
      "}"                                                                  \
      : "=r"(done)                                                         \
      : "r"(mbarrier), "r"(parity)                                         \
      : "memory")

/// "mbarrier.test_wait": whether the phase of this parity has ended, at once.
__device__ inline bool mbarrier_test_wait_parity(std::uint32_t mbarrier, std::uint32_t parity) {
  std::uint32_t done;
  MICROSCALE_MBARRIER_HAS_ENDED("mbarrier.test_wait.parity", done, mbarrier, parity);
  return done != 0;
}

/// "mbarrier.try_wait": whether the phase of this parity has ended; may sleep a while before it
/// says no.
__device__ inline bool mbarrier_try_wait_parity(std::uint32_t mbarrier, std::uint32_t parity) {
  std::uint32_t done;
  MICROSCALE_MBARRIER_HAS_ENDED("mbarrier.try_wait.parity", done, mbarrier, parity);
  return done != 0;
}

/// The same for what another block of the cluster has sent.
__device__ inline bool mbarrier_try_wait_parity_cluster(std::uint32_t mbarrier,
                                                        std::uint32_t parity) {
  std::uint32_t done;
  MICROSCALE_MBARRIER_HAS_ENDED("mbarrier.try_wait.parity.acquire.cluster", done, mbarrier, parity);
  return done != 0;
}
#undef MICROSCALE_MBARRIER_HAS_ENDED

/// Until it says yes.
__device__ inline void mbarrier_wait_parity(std::uint32_t mbarrier, std::uint32_t parity) {
  while (!mbarrier_try_wait_parity(mbarrier, parity)) {
  }
}

__device__ inline void mbarrier_wait_parity_cluster(std::uint32_t mbarrier, std::uint32_t parity) {
  while (!mbarrier_try_wait_parity_cluster(mbarrier, parity)) {
  }
}

/// "mapa", "mbarrier.arrive": one arrival, where `guard` is set, at the same barrier of block
/// `rank` of the cluster. For memory that this thread has read; what it has written wants a fence.
__device__ inline void mbarrier_arrive_cluster(std::uint32_t mbarrier, std::uint32_t rank,
                                               bool guard) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "setp.ne.b32 p, %2, 0;\n"
      "@p mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}" ::"r"(mbarrier),
      "r"(rank), "r"(static_cast<int>(guard))
      : "memory");
}

/// The same, always, for what this thread has read, written or waited for: who waits for the phase
/// with mbarrier_wait_parity_cluster sees it.
__device__ inline void mbarrier_arrive_release_cluster(std::uint32_t mbarrier, std::uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
      "}" ::"r"(mbarrier),
      "r"(rank)
      : "memory");
}

}  // namespace microscale::ptx
