// Products of MXFP8 by what is of another element.
#include "cuda/tile/block_scaled_product.cuh"

MICROSCALE_BLOCK_SCALED_ENTRY(mxfp8_e4m3_mxfp4, E4m3E2m1)
MICROSCALE_BLOCK_SCALED_ENTRY(mxfp8_e4m3_mxfp8_e5m2, E4m3E5m2)
MICROSCALE_BLOCK_SCALED_ENTRY(mxfp8_e5m2_mxfp8_e4m3, E5m2E4m3)
