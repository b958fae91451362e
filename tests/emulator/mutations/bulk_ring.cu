// Chunks of 128 floats: bulk copies into two stages under mbarriers, doubled and reversed into a
// third buffer, a bulk copy out of it. 128 threads; thread 0 issues the copies.
namespace {

__device__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

extern "C" __device__ __noinline__ void fetch(unsigned stage, unsigned barrier, const float* from) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(barrier) : "memory");
  asm volatile(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(
          stage),
      "l"(from), "r"(barrier)
      : "memory");
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128)
    double_chunks(const float* in, float* out, unsigned chunks) {
  __shared__ __align__(128) float stage[2][128], result[128];
  __shared__ __align__(8) unsigned long long full[2];
  const unsigned thread = threadIdx.x;
  if (thread == 0) {
    const unsigned first = shared_address(&full[0]), second = shared_address(&full[1]);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;  // first" ::"r"(first) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;  // second" ::"r"(second) : "memory");
    asm volatile("fence.proxy.async.shared::cta;  // the mbarriers" ::: "memory");
    fetch(shared_address(stage[0]), shared_address(&full[0]), in);
    if (chunks > 1) fetch(shared_address(stage[1]), shared_address(&full[1]), in + 128);
  }
  asm volatile("bar.sync 0;  // the mbarriers stand" ::: "memory");
#pragma unroll 1
  for (unsigned chunk = 0; chunk < chunks; ++chunk) {
    const unsigned which = chunk & 1, parity = chunk >> 1 & 1;
    asm volatile(
        "{ .reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;  // the chunk has landed\n"
        "@!done bra again; }" ::"r"(shared_address(&full[which])),
        "r"(parity)
        : "memory");
    const float value = stage[which][thread];
    if (thread == 0)
      asm volatile("cp.async.bulk.wait_group.read 0;  // the result may change" ::: "memory");
    asm volatile("bar.sync 0;  // the stage is read, the result free" ::: "memory");
    if (thread == 0 && chunk + 2 < chunks)
      fetch(shared_address(stage[which]), shared_address(&full[which]), in + 128 * (chunk + 2));
    result[127 - thread] = 2 * value;
    asm volatile("fence.proxy.async.shared::cta;  // the result" ::: "memory");
    asm volatile("bar.sync 0;  // the result is whole" ::: "memory");
    if (thread == 0) {
      asm volatile(
          "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(out + 128 * chunk),
          "r"(shared_address(result))
          : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
  }
  if (thread == 0) asm volatile("cp.async.bulk.wait_group 0;  // all is out" ::: "memory");
}
