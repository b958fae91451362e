// Names the entry points of grouped quantize for one format and mode: every dense type and scale
// layout.
#pragma once

#include "cuda/block/grid_order.cuh"
#include "cuda/quantize/grouped_tile.cuh"

#define MICROSCALE_GROUPED_ENTRY(format, dtype, mode, layout, Format, Input, Tiled)                \
  extern "C" __global__ void __launch_bounds__(                                                    \
      microscale::cuda::threads_per_block,                                                         \
      microscale::cuda::resident_blocks(Format::searches, microscale::cuda::Input::element_bytes)) \
      grouped_quantize_##format##_##dtype##_##mode##_##layout(                                     \
          const __grid_constant__ microscale::cuda::GroupedQuantizeArgs args) {                    \
    microscale::cuda::follow_previous_grid();                                                      \
    microscale::cuda::grouped_tile<Format, microscale::cuda::Input, Tiled>(args);                  \
  }

#define MICROSCALE_GROUPED_LAYOUTS(format, dtype, mode, Format, Input)      \
  MICROSCALE_GROUPED_ENTRY(format, dtype, mode, rows, Format, Input, false) \
  MICROSCALE_GROUPED_ENTRY(format, dtype, mode, tiled, Format, Input, true)

#define MICROSCALE_GROUPED_ENTRIES(format, mode, Format)          \
  MICROSCALE_GROUPED_LAYOUTS(format, f32, mode, Format, InputF32) \
  MICROSCALE_GROUPED_LAYOUTS(format, f16, mode, Format, InputF16) \
  MICROSCALE_GROUPED_LAYOUTS(format, bf16, mode, Format, InputBf16)
