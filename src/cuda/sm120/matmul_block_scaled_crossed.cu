// Products of MXFP8 by MXFP8, one of E4M3 and one of E5M2.
#include "cuda/matmul/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_SCALED_ENTRY(mxfp8_e4m3_mxfp8_e5m2, E4m3E5m2)
MICROSCALE_BLOCK_SCALED_ENTRY(mxfp8_e5m2_mxfp8_e4m3, E5m2E4m3)
