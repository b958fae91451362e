// Products of NVFP4 weights and many rows of a.
#include "cuda/tile/wide_product.cuh"

MICROSCALE_WIDE_ENTRIES(nvfp4_bf16, WideNvfp4)
