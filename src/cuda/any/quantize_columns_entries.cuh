// Names the entry points of one format and mode along columns, and along both axes: every dense
// type.
#pragma once

#include "cuda/block/grid_order.cuh"
#include "cuda/quantize/transpose_tile.cuh"

#define MICROSCALE_COLUMNS_ENTRY(axes, format, dtype, mode, Format, Input, Rows)    \
  extern "C" __global__ void __launch_bounds__(                                     \
      microscale::cuda::threads_per_block,                                          \
      microscale::cuda::resident_transpose_blocks<Format, microscale::cuda::Input>) \
      quantize_##axes##_##format##_##dtype##_##mode(                                \
          const __grid_constant__ microscale::cuda::ColumnsArgs args) {             \
    microscale::cuda::follow_previous_grid();                                       \
    microscale::cuda::transpose_tile<Format, microscale::cuda::Input, Rows>(args);  \
  }

#define MICROSCALE_COLUMNS_AXES(format, dtype, mode, Format, Input)            \
  MICROSCALE_COLUMNS_ENTRY(columns, format, dtype, mode, Format, Input, false) \
  MICROSCALE_COLUMNS_ENTRY(both, format, dtype, mode, Format, Input, true)

#define MICROSCALE_COLUMNS_ENTRIES(format, mode, Format)       \
  MICROSCALE_COLUMNS_AXES(format, f32, mode, Format, InputF32) \
  MICROSCALE_COLUMNS_AXES(format, f16, mode, Format, InputF16) \
  MICROSCALE_COLUMNS_AXES(format, bf16, mode, Format, InputBf16)
