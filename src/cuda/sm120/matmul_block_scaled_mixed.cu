// Products of MXFP8 by MXFP4.
#include "cuda/matmul/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_SCALED_ENTRY(mxfp8_e4m3_mxfp4, E4m3E2m1)
