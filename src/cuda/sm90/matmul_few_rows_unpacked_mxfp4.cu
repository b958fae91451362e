#include "cuda/matmul/few_rows/unpacked_kernel.cuh"
#define MICROSCALE_FEW_ROWS_UNPACKED(name, block, by)                                           \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::few_rows::unpacked_threads, 1) \
      matmul_few_rows_##name(                                                                   \
          const __grid_constant__ microscale::cuda::few_rows::UnpackedArgs args) {              \
    using namespace microscale::cuda::few_rows;                                                 \
    UnpackedKernel<block, by>::run(args);                                                       \
  }

MICROSCALE_FEW_ROWS_UNPACKED(mxfp4_unpacked_fp4_1, 32, ByCodes)
MICROSCALE_FEW_ROWS_UNPACKED(mxfp4_unpacked_f16_1, 32, ByHalves)
