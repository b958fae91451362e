// Products of MXFP4 weights and many rows of a.
#include "cuda/matmul/in_registers/kernel.cuh"

MICROSCALE_WIDE_ENTRIES(mxfp4_bf16, WideMxfp4)
