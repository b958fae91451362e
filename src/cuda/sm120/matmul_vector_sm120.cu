// One row times a matrix, both NVFP4, for consumer Blackwell.
#include "cuda/tile/vector_product.cuh"

MICROSCALE_VECTOR_ENTRIES
