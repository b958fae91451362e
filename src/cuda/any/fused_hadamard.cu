// A Hadamard transform of blocks of 16 to 128 neighbours, quantized without going through memory.
#include "cuda/any/fused_entries.cuh"
#include "cuda/block/grid_order.cuh"
#include "cuda/quantize/producers.cuh"

#define MICROSCALE_FUSED_ENTRY(format, dtype, mode, Format, Input)           \
  extern "C" __global__ void __launch_bounds__(                              \
      microscale::cuda::threads_per_block,                                   \
      microscale::cuda::lane_blocks(microscale::cuda::Input::element_bytes)) \
      fused_hadamard_##format##_##dtype##_##mode(                            \
          const __grid_constant__ microscale::cuda::FusedArgs args) {        \
    microscale::cuda::follow_previous_grid();                                \
    using namespace microscale::cuda;                                        \
    fused_hadamard<Input, Format>(args);                                     \
  }

MICROSCALE_FUSED_ENTRIES
