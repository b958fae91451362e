// Products of MXFP4 weights and very many rows of MXFP4 in FP8, and what makes both ready.
#include "cuda/tile/dense_product.cuh"
#include "cuda/tile/expand_fp8.cuh"
#include "cuda/tile/prepare_fp8.cuh"

extern "C" __global__ void __launch_bounds__(256)
    matmul_expand_fp8(const __grid_constant__ microscale::cuda::ExpandFp8Args args) {
  microscale::cuda::expand_fp8(args);
}

extern "C" __global__ void __launch_bounds__(256)
    matmul_prepare_fp8(const __grid_constant__ microscale::cuda::PrepareFp8Args args) {
  microscale::cuda::prepare_fp8(args);
}

extern "C" __global__ void __cluster_dims__(microscale::cuda::dense_blocks, 1, 1)
    __launch_bounds__(microscale::cuda::wide_threads, 1)
        matmul_dense_fp8(const __grid_constant__ microscale::cuda::MatmulDenseArgs args) {
  microscale::cuda::DenseProduct<microscale::cuda::DenseE5m2, microscale::cuda::DenseOutput>::run(
      args);
}
