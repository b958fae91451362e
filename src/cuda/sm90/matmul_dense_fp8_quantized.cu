// Products of MXFP4 weights and very many rows of MXFP4 in FP8, whose d is quantized.
#include "cuda/matmul/expanded/kernel.cuh"
#include "cuda/matmul/expanded/quantize.cuh"

#define MICROSCALE_DENSE_ENTRY(name, output)                                                    \
  extern "C" __global__ void __cluster_dims__(microscale::cuda::dense_blocks, 1, 1)             \
      __launch_bounds__(microscale::cuda::wide_threads, 1) matmul_dense_fp8_to_##name(          \
          const __grid_constant__ microscale::cuda::MatmulDenseBlocksArgs args) {               \
    microscale::cuda::DenseProduct<microscale::cuda::DenseE5m2, microscale::cuda::output>::run( \
        args);                                                                                  \
  }

MICROSCALE_DENSE_ENTRY(nvfp4, DenseToNvfp4)
MICROSCALE_DENSE_ENTRY(mxfp4, DenseToMxfp4)
MICROSCALE_DENSE_ENTRY(mxfp8_e4m3, DenseToMxfp8E4m3)
MICROSCALE_DENSE_ENTRY(mxfp8_e5m2, DenseToMxfp8E5m2)
