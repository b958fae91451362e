// Products of MXFP8 by MXFP4.
#include "cuda/tile/block_scaled_product.cuh"

MICROSCALE_BLOCK_SCALED_ENTRY(mxfp8_e4m3_mxfp4, E4m3E2m1)
