// RMSNorm, with a residual if there is one, quantized without going through memory.
#include "cuda/any/fused_entries.cuh"
#include "cuda/tile/row_norm.cuh"

#define MICROSCALE_FUSED_ENTRY(format, dtype, mode, Format, Input)                      \
  extern "C" __global__ void __launch_bounds__(microscale::rms_segment_groups, \
                                               microscale::cuda::Input::element_bytes == 2 ? 2 : 1) \
      fused_rms_norm_##format##_##dtype##_##mode(                                       \
          const __grid_constant__ microscale::cuda::FusedArgs args) {                   \
    using namespace microscale::cuda;                                                   \
    fused_rms_norm<Input, Format>(args);                                                \
  }

MICROSCALE_FUSED_ENTRIES
