// The sum of n floats by up to 32 blocks of 128 threads: shuffles, shared memory, and the last
// block adds up.
namespace {

extern "C" __device__ __noinline__ float sum_of_warp(float value) {
#pragma unroll 1
  for (unsigned distance = 16; distance; distance /= 2)
    value += __shfl_down_sync(0xffffffffu, value, distance);
  return value;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128)
    sum(const float* in, float* partial, unsigned* ticket, float* out, unsigned n) {
  __shared__ float of_warp[4];
  __shared__ unsigned turn;
  const unsigned thread = threadIdx.x;
  float value = 0;
#pragma unroll 1
  for (unsigned i = blockIdx.x * 128 + thread; i < n; i += gridDim.x * 128) value += in[i];
  value = sum_of_warp(value);
  if (thread % 32 == 0) of_warp[thread / 32] = value;
  asm volatile("bar.sync 0;  // the warps' sums" ::: "memory");
  if (thread == 0) {
    partial[blockIdx.x] = of_warp[0] + of_warp[1] + of_warp[2] + of_warp[3];
    asm volatile("fence.acq_rel.gpu;  // the block's sum before its ticket" ::: "memory");
    turn = atomicAdd(ticket, 1);
    asm volatile("fence.acq_rel.gpu;  // the ticket before the others' sums" ::: "memory");
  }
  asm volatile("bar.sync 0;  // the ticket" ::: "memory");
  if (turn != gridDim.x - 1 || thread >= 32) return;
  value = thread < gridDim.x ? partial[thread] : 0;
  value = sum_of_warp(value);
  if (thread == 0) *out = value;
}
