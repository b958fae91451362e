// One row times a matrix, both NVFP4, for data-centre Blackwell.
#include "cuda/matmul/vector/kernel.cuh"

MICROSCALE_VECTOR_ENTRIES
