// One row times a matrix, both NVFP4, for data-centre Blackwell.
#include "cuda/tile/vector_product.cuh"

MICROSCALE_VECTOR_ENTRIES
