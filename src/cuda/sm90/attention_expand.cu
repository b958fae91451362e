// Keys and values of every type, made ready for attention_prefill_....
#include "cuda/attention/prefill/expand.cuh"

#define MICROSCALE_ATTENTION_EXPAND_ENTRY(name, elements, width)                         \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::prefill_expand_threads) \
      attention_expand_##name##_##width(                                                 \
          const __grid_constant__ microscale::cuda::AttentionExpandArgs args) {          \
    microscale::cuda::AttentionExpand<microscale::cuda::elements, width>::run(args);     \
  }
#define MICROSCALE_ATTENTION_EXPAND_ENTRIES(name, elements) \
  MICROSCALE_ATTENTION_EXPAND_ENTRY(name, elements, 64)     \
  MICROSCALE_ATTENTION_EXPAND_ENTRY(name, elements, 128)    \
  MICROSCALE_ATTENTION_EXPAND_ENTRY(name, elements, 256)

MICROSCALE_ATTENTION_EXPAND_ENTRIES(f32, ElementsF32)
MICROSCALE_ATTENTION_EXPAND_ENTRIES(f16, ElementsF16)
MICROSCALE_ATTENTION_EXPAND_ENTRIES(bf16, ElementsBf16)
MICROSCALE_ATTENTION_EXPAND_ENTRIES(e4m3, ElementsE4m3)
MICROSCALE_ATTENTION_EXPAND_ENTRIES(nvfp4, ElementsNvfp4)
MICROSCALE_ATTENTION_EXPAND_ENTRIES(mxfp4, ElementsMxfp4)
MICROSCALE_ATTENTION_EXPAND_ENTRIES(mxfp8_e4m3, ElementsMxfp8E4m3)
MICROSCALE_ATTENTION_EXPAND_ENTRIES(mxfp8_e5m2, ElementsMxfp8E5m2)
