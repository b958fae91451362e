// Products of FP4 by FP4 with block scales.
#include "cuda/matmul/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_SCALED_ENTRY(nvfp4_nvfp4, Nvfp4)
MICROSCALE_BLOCK_SCALED_ENTRY(mxfp4_mxfp4, Mxfp4)
