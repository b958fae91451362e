// a made ready for products of few rows, every kind of a.
#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/fallback/prepare.cuh"

#define MICROSCALE_PREPARE_ENTRY(kind, ...)                                                        \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::prepare_threads)                  \
      matmul_prepare_rows_##kind(const __grid_constant__ microscale::cuda::PrepareRowsArgs args) { \
    microscale::cuda::follow_previous_grid();                                                      \
    microscale::cuda::prepare_row<microscale::cuda::__VA_ARGS__>(args);                            \
  }

MICROSCALE_PREPARE_ENTRY(bf16, Bf16Units)
MICROSCALE_PREPARE_ENTRY(f16, F16Units)
MICROSCALE_PREPARE_ENTRY(nvfp4, Nvfp4Units)
MICROSCALE_PREPARE_ENTRY(mxfp4, Mxfp4Units)
MICROSCALE_PREPARE_ENTRY(mxfp8_e4m3, Mxfp8Units<microscale::E4M3>)
MICROSCALE_PREPARE_ENTRY(mxfp8_e5m2, Mxfp8Units<microscale::E5M2>)
