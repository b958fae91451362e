// RMSNorm, quantized without going through memory.
#include "cuda/any/fused_entries.cuh"
#include "cuda/block/grid_order.cuh"
#include "cuda/quantize/row_norm.cuh"

#define MICROSCALE_FUSED_ENTRY(format, dtype, mode, Format, Input)                    \
  extern "C" __global__ void __maxnreg__(                                             \
      microscale::cuda::row_registers(microscale::cuda::Input::element_bytes, false)) \
      fused_rms_norm_##format##_##dtype##_##mode(                                     \
          const __grid_constant__ microscale::cuda::FusedArgs args) {                 \
    microscale::cuda::follow_previous_grid();                                         \
    using namespace microscale::cuda;                                                 \
    fused_rms_norm<Input, Format, false>(args);                                       \
  }

MICROSCALE_FUSED_ENTRIES
