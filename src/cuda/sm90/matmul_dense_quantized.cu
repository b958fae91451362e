// Products of expanded weights and very many rows of a, 16 bits an element, whose d is quantized.
#include "cuda/matmul/expanded/kernel.cuh"
#include "cuda/matmul/expanded/quantize.cuh"

#define MICROSCALE_DENSE_ENTRY(name, element, output)                                             \
  extern "C" __global__ void __cluster_dims__(                                                    \
      microscale::cuda::dense_blocks, 1, 1) __launch_bounds__(microscale::cuda::wide_threads, 1)  \
      matmul_dense_##name(const __grid_constant__ microscale::cuda::MatmulDenseBlocksArgs args) { \
    microscale::cuda::DenseProduct<microscale::cuda::element, microscale::cuda::output>::run(     \
        args);                                                                                    \
  }

MICROSCALE_DENSE_ENTRY(bf16_to_nvfp4, DenseBf16, DenseToNvfp4)
MICROSCALE_DENSE_ENTRY(bf16_to_mxfp4, DenseBf16, DenseToMxfp4)
MICROSCALE_DENSE_ENTRY(bf16_to_mxfp8_e4m3, DenseBf16, DenseToMxfp8E4m3)
MICROSCALE_DENSE_ENTRY(bf16_to_mxfp8_e5m2, DenseBf16, DenseToMxfp8E5m2)
MICROSCALE_DENSE_ENTRY(f16_to_nvfp4, DenseF16, DenseToNvfp4)
MICROSCALE_DENSE_ENTRY(f16_to_mxfp4, DenseF16, DenseToMxfp4)
MICROSCALE_DENSE_ENTRY(f16_to_mxfp8_e4m3, DenseF16, DenseToMxfp8E4m3)
MICROSCALE_DENSE_ENTRY(f16_to_mxfp8_e5m2, DenseF16, DenseToMxfp8E5m2)
