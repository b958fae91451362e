// Names the entry points of one format and mode: every dense type and scale layout.
#pragma once

#include "cuda/block/grid_order.cuh"
#include "cuda/quantize/rows_tile.cuh"

#define MICROSCALE_QUANTIZE_ENTRY(format, dtype, mode, layout, Format, Input, Tiled)               \
  extern "C" __global__ void __launch_bounds__(                                                    \
      microscale::cuda::threads_per_block,                                                         \
      microscale::cuda::resident_blocks(Format::searches, microscale::cuda::Input::element_bytes)) \
      quantize_##format##_##dtype##_##mode##_##layout(                                             \
          const __grid_constant__ microscale::cuda::QuantizeArgs args) {                           \
    microscale::cuda::follow_previous_grid();                                                      \
    microscale::cuda::quantize_tile<Format, microscale::cuda::Input, Tiled>(args);                 \
  }

#define MICROSCALE_QUANTIZE_LAYOUTS(format, dtype, mode, Format, Input)      \
  MICROSCALE_QUANTIZE_ENTRY(format, dtype, mode, rows, Format, Input, false) \
  MICROSCALE_QUANTIZE_ENTRY(format, dtype, mode, tiled, Format, Input, true)

#define MICROSCALE_QUANTIZE_ENTRIES(format, mode, Format)          \
  MICROSCALE_QUANTIZE_LAYOUTS(format, f32, mode, Format, InputF32) \
  MICROSCALE_QUANTIZE_LAYOUTS(format, f16, mode, Format, InputF16) \
  MICROSCALE_QUANTIZE_LAYOUTS(format, bf16, mode, Format, InputBf16)
