// Two blocks of a cluster have 128 floats each. Each sends the other half of them, under an
// mbarrier of that block, adds what it is sent to its own half; block 0 reads both halves of the
// sum. 64 threads.
namespace {

__device__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

__device__ unsigned in_block(unsigned address, unsigned rank) {
  unsigned mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

}  // namespace

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)
    pair_sum(const float* in, float* out) {
  __shared__ float sent[64], sum[64];
  __shared__ __align__(8) unsigned long long full;
  const unsigned thread = threadIdx.x, own = blockIdx.x, other = own ^ 1,
                 barrier = shared_address(&full);
  if (thread == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;  // the mbarrier" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(barrier)
                 : "memory");
  }
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;  // has begun" ::: "memory");
  const float kept = in[128 * own + 64 * own + thread], given = in[128 * own + 64 * other + thread];
  asm volatile("barrier.cluster.wait.acquire.aligned;  // the other has begun" ::: "memory");
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
          in_block(shared_address(&sent[thread]), other)),
      "f"(given), "r"(in_block(barrier, other))
      : "memory");
  asm volatile(
      "{ .reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;  // all is here\n"
      "@!done bra again; }" ::"r"(barrier)
      : "memory");
  sum[thread] = kept + sent[thread];
  asm volatile("barrier.cluster.arrive.release.aligned;  // the sums" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;  // the sums" ::: "memory");
  if (own == 0) {
    float far;
    asm volatile("ld.shared::cluster.f32 %0, [%1];"
                 : "=f"(far)
                 : "r"(in_block(shared_address(&sum[thread]), 1))
                 : "memory");
    out[thread] = sum[thread];
    out[64 + thread] = far;
  }
  asm volatile("barrier.cluster.arrive.release.aligned;  // the sums are read" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;  // the sums are read" ::: "memory");
}
