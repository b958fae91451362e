// Packed weights expanded to elements with their scales inside: one entry point for each kind.
#include "cuda/matmul/expanded/expand_weights.cuh"

#define MICROSCALE_EXPAND_ENTRY(name, weights)                                                 \
  extern "C" __global__ void __launch_bounds__(256)                                            \
      matmul_expand_##name(const __grid_constant__ microscale::cuda::ExpandWeightsArgs args) { \
    microscale::cuda::expand_weights<microscale::cuda::weights>(args);                         \
  }

MICROSCALE_EXPAND_ENTRY(mxfp4_bf16, WideMxfp4)
MICROSCALE_EXPAND_ENTRY(nvfp4_bf16, ExpandedNvfp4)
MICROSCALE_EXPAND_ENTRY(nvfp4_f16, ExpandedNvfp4F16)
MICROSCALE_EXPAND_ENTRY(mxfp8_e4m3_bf16, WideMxfp8<false>)
MICROSCALE_EXPAND_ENTRY(mxfp8_e5m2_bf16, WideMxfp8<true>)
