// Products of MXFP8 E5M2 weights and many rows of a.
#include "cuda/matmul/in_registers/kernel.cuh"

MICROSCALE_WIDE_ENTRIES(mxfp8_e5m2_bf16, WideMxfp8<true>)
