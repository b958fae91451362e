// Products of MXFP4 weights and rows of MXFP4 in FP8, and what makes both ready.
#include "cuda/tile/prepare_fp8.cuh"
#include "cuda/tile/wide_fp8.cuh"

extern "C" __global__ void __launch_bounds__(256)
    matmul_fp8_windows(const __grid_constant__ microscale::cuda::Fp8WindowArgs args) {
  microscale::cuda::find_windows(args);
}

extern "C" __global__ void __launch_bounds__(256)
    matmul_prepare_fp8(const __grid_constant__ microscale::cuda::PrepareFp8Args args) {
  microscale::cuda::prepare_fp8(args);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1)
    __launch_bounds__(microscale::cuda::wide_threads, 1)
        matmul_wide_fp8(const __grid_constant__ microscale::cuda::MatmulFp8Args args) {
  microscale::cuda::WideFp8::run(args);
}
