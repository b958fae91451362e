// Chunks of 256 floats through two stages that cp.async fills, each written out back to front. 64
// threads.
namespace {

__device__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

__device__ void copy_async(float* to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
}

}  // namespace

extern "C" __global__ void __launch_bounds__(64)
    reverse_chunks(const float* in, float* out, unsigned chunks) {
  __shared__ __align__(16) float stage[2][256];
  const unsigned at = 4 * threadIdx.x;
#pragma unroll 1
  for (unsigned chunk = 0; chunk <= chunks; ++chunk) {
    if (chunk < chunks) copy_async(&stage[chunk & 1][at], in + 256 * chunk + at);
    if (chunk == 0) continue;
    if (chunk < chunks)
      asm volatile("cp.async.wait_group 1;  // the chunk before" ::: "memory");
    else
      asm volatile("cp.async.wait_group 0;  // the last chunk" ::: "memory");
    asm volatile("bar.sync 0;  // everybody's part is here" ::: "memory");
    const float4 part = *reinterpret_cast<const float4*>(&stage[(chunk - 1) & 1][252 - at]);
    *reinterpret_cast<float4*>(out + 256 * (chunk - 1) + at) =
        make_float4(part.w, part.z, part.y, part.x);
    asm volatile("bar.sync 0;  // everybody has read" ::: "memory");
  }
}
