// Products of expanded weights and very many rows of a in FP8.
#include "cuda/tile/dense_product.cuh"

extern "C" __global__ void __cluster_dims__(microscale::cuda::dense_blocks, 1, 1)
    __launch_bounds__(microscale::cuda::wide_threads, 1)
        matmul_dense_fp8(const __grid_constant__ microscale::cuda::MatmulDenseArgs args) {
  microscale::cuda::DenseProduct<microscale::cuda::DenseE5m2>::run(args);
}
