// One row times a matrix, both NVFP4, for consumer Blackwell.
#include "cuda/matmul/vector/kernel.cuh"

MICROSCALE_VECTOR_ENTRIES
