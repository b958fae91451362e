// Counters of a matrix product to 0, for the kernels of many rows (tile/wide_sums.cuh).
#include "cuda/geometry.hpp"
#include "cuda/matmul_args.hpp"
#include "cuda/tile/grid_order.cuh"

extern "C" __global__ void __launch_bounds__(microscale::cuda::threads_per_block)
    matmul_clear(const __grid_constant__ microscale::cuda::MatmulClearArgs args) {
  microscale::cuda::follow_previous_grid();
#pragma unroll 1
  for (std::int64_t i = threadIdx.x; i < args.count; i += blockDim.x) args.words[i] = 0;
}
