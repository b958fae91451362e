// Products of NVFP4, weights as they lie in a checkpoint, and many rows of a.
#include "cuda/tile/wide_product.cuh"

MICROSCALE_WIDE_ENTRIES(nvfp4_plain, WidePlainNvfp4)
