// Products of expanded weights and very many rows of a, 16 bits an element.
#include "cuda/matmul/expanded/kernel.cuh"

#define MICROSCALE_DENSE_ENTRY(name, element)                                                      \
  extern "C" __global__ void __cluster_dims__(microscale::cuda::dense_blocks, 1, 1)                \
      __launch_bounds__(microscale::cuda::wide_threads, 1)                                         \
          matmul_dense_##name(const __grid_constant__ microscale::cuda::MatmulDenseArgs args) {    \
    microscale::cuda::DenseProduct<microscale::cuda::element, microscale::cuda::DenseOutput>::run( \
        args);                                                                                     \
  }

MICROSCALE_DENSE_ENTRY(bf16, DenseBf16)
MICROSCALE_DENSE_ENTRY(f16, DenseF16)
