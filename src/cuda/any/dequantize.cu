// Block-scaled to dense, every format and dense type.
#include "cuda/quantize/dequantize_tile.cuh"
#include "cuda/block/grid_order.cuh"

#define MICROSCALE_DEQUANTIZE_ENTRY(format, dtype, Codec, E8M0, Output)                         \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::threads_per_block)             \
      dequantize_##format##_##dtype(                                                            \
          const __grid_constant__ microscale::cuda::DequantizeArgs args) {                      \
    microscale::cuda::follow_previous_grid();                                                   \
    microscale::cuda::dequantize_tile<microscale::Codec, E8M0, microscale::cuda::Output>(args); \
  }

#define MICROSCALE_DEQUANTIZE_ENTRIES(format, Codec, E8M0)         \
  MICROSCALE_DEQUANTIZE_ENTRY(format, f32, Codec, E8M0, OutputF32) \
  MICROSCALE_DEQUANTIZE_ENTRY(format, f16, Codec, E8M0, OutputF16) \
  MICROSCALE_DEQUANTIZE_ENTRY(format, bf16, Codec, E8M0, OutputBf16)

MICROSCALE_DEQUANTIZE_ENTRIES(mxfp4, E2M1, true)
MICROSCALE_DEQUANTIZE_ENTRIES(nvfp4, E2M1, false)
MICROSCALE_DEQUANTIZE_ENTRIES(mxfp8_e4m3, E4M3, true)
MICROSCALE_DEQUANTIZE_ENTRIES(mxfp8_e5m2, E5M2, true)
