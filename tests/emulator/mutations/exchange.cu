// Two warps: each turns its 32 words round in shared memory; then warp 0 adds what warp 1 got,
// handed over through a named barrier, and a running sum of lanes.
extern "C" __global__ void __launch_bounds__(64) exchange(const unsigned* in, unsigned* out) {
  __shared__ unsigned words[2][32], handed[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  words[warp][lane] = in[threadIdx.x];
  asm volatile("bar.warp.sync 0xffffffff;  // the words of the warp" ::: "memory");
  const unsigned turned = words[warp][31 - lane];
  if (warp == 1) {
    handed[lane] = turned;
    asm volatile("bar.arrive 1, 64;  // handed over" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 64;  // taken" ::: "memory");
    unsigned total = turned + handed[lane];
#pragma unroll 1
    for (unsigned distance = 1; distance < 32; distance *= 2) {
      const unsigned before = __shfl_up_sync(0xffffffffu, total, distance);
      if (lane >= distance) total += before;
    }
    out[lane] = total;
  }
}
