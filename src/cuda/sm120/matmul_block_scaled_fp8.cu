// Products of MXFP8 by MXFP8, two of E4M3 and E5M2 each.
#include "cuda/matmul/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_SCALED_ENTRY(mxfp8_e4m3_mxfp8_e4m3, E4m3E4m3)
MICROSCALE_BLOCK_SCALED_ENTRY(mxfp8_e5m2_mxfp8_e5m2, E5m2E5m2)
