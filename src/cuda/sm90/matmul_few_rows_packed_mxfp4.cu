#include "cuda/matmul/fallback/weights_packed.cuh"
#include "cuda/matmul/few_rows/packed_kernel.cuh"
#include "cuda/matmul/few_rows/packed_weights.cuh"
#define MICROSCALE_FEW_ROWS_PACKED(name, Weights, tiles)                                        \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::few_rows::packed_threads, 1)   \
      matmul_few_rows_##name(const __grid_constant__ microscale::cuda::few_rows::PackedArgs args) { \
    using namespace microscale::cuda;                                                           \
    few_rows::PackedKernel<few_rows::PackedLoads<Weights, tiles>>::run(args);                   \
  }
MICROSCALE_FEW_ROWS_PACKED(mxfp4_packed_f16_8, PackedMxfp4, 1)
MICROSCALE_FEW_ROWS_PACKED(mxfp4_packed_bf16_8, PackedMxfp4Bf16, 1)
MICROSCALE_FEW_ROWS_PACKED(mxfp4_packed_f16_16, PackedMxfp4, 2)
