// Small kernels with the faults that docs/bugs-found.md tells of, each beside itself without the
// fault (mended). Made into bugs.ptx by make_ptx.sh.
#include <cuda_pipeline.h>

// Softmax of a row by one block: the maximum comes to all through maxima[0], which the sums of the
// exponentials are put into next.
template <bool mended>
__global__ void softmax_row(const float* in, float* out, int n) {
  __shared__ float part[4];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float most = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, in[i]);
  for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
  if (lane == 0) part[warp] = most;
  __syncthreads();
  if (threadIdx.x == 0) part[0] = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
  __syncthreads();
  most = part[0];
  if (mended) __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += out[i] = expf(in[i] - most);
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane == 0) part[warp] = sum;  // part[0] may not have been read yet
  __syncthreads();
  sum = part[0] + part[1] + part[2] + part[3];
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] /= sum;
}
template __global__ void softmax_row<false>(const float*, float*, int);
template __global__ void softmax_row<true>(const float*, float*, int);

// y[i] = y[i] + y[i + 1] in place: an index beyond the end is clamped to the last element, which
// another thread is about to write.
template <bool mended>
__global__ void add_next(float* y, int n) {
  const int i = threadIdx.x, next = min(i + 1, n - 1);
  const float sum = i < n ? y[i] + y[next] : 0;
  if (mended) __syncthreads();
  if (i < n) y[i] = sum;
}
template __global__ void add_next<false>(float*, int);
template __global__ void add_next<true>(float*, int);

// Two tiles through one buffer by cp.async: the second is asked for while slower warps still read
// the first.
template <bool mended>
__global__ void two_tiles(const float4* in, float4* out) {
  __shared__ float4 tile[64];
  for (int t = 0; t < 2; ++t) {
    __pipeline_memcpy_async(&tile[threadIdx.x], &in[t * 64 + threadIdx.x], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t * 64 + threadIdx.x] = tile[63 - threadIdx.x];
    if (mended) __syncthreads();  // all have read the tile
  }
}
template __global__ void two_tiles<false>(const float4*, float4*);
template __global__ void two_tiles<true>(const float4*, float4*);

// A register is fetched one step ahead, also in the last step, where nothing lies ahead; and what
// it then holds is looked at.
template <bool mended>
__global__ void fetch_ahead(const float* in, float* out, int steps) {
  __shared__ float row[8][32];
  for (int s = 0; s < steps; ++s) row[s][threadIdx.x] = in[32 * s + threadIdx.x];
  __syncwarp();
  float sum = 0, next = row[0][31 - threadIdx.x];
  for (int s = 0; s < steps; ++s) {
    const float now = next;
    if (!mended || s + 1 < steps) next = row[s + 1][31 - threadIdx.x];
    sum += now;
  }
  if (next > 1e30f) sum = INFINITY;
  out[threadIdx.x] = sum;
}
template __global__ void fetch_ahead<false>(const float*, float*, int);
template __global__ void fetch_ahead<true>(const float*, float*, int);

// Four elements a thread, stored from the last to the first: at the edge of a matrix whose width is
// no multiple of 4 the first index is negative.
template <bool mended>
__global__ void last_four(const float* in, float* out, int n) {
  float mine[4];
  const int first = 4 * threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < 4 && (mended ? first + i < n : true); ++i) {
    const int from_end = mended ? i : min(first + 3, n - 1) - first - (3 - i);
    mine[from_end] = in[min(first + i, n - 1)];
  }
#pragma unroll 1
  for (int i = 0; i < 4 && first + i < n; ++i) out[first + i] = mine[i];
}
template __global__ void last_four<false>(const float*, float*, int);
template __global__ void last_four<true>(const float*, float*, int);

// Threads of all blocks take the elements in turn; the second sum below is meant to be the first.
template <bool mended>
__global__ void scale_all(const float* in, float* out, int n) {
  const int i = threadIdx.x + blockDim.x * blockIdx.x;
  const int from = mended ? i : threadIdx.x + blockDim.x + blockIdx.x;
  if (i < n) out[i] = 2 * in[from];
}
template __global__ void scale_all<false>(const float*, float*, int);
template __global__ void scale_all<true>(const float*, float*, int);
