// Products of MXFP8 E4M3 weights and many rows of a.
#include "cuda/matmul/in_registers/kernel.cuh"

MICROSCALE_WIDE_ENTRIES(mxfp8_e4m3_bf16, WideMxfp8<false>)
