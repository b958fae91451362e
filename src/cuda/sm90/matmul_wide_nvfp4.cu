// Products of NVFP4 weights and many rows of a.
#include "cuda/matmul/in_registers/kernel.cuh"

MICROSCALE_WIDE_ENTRIES(nvfp4_bf16, WideNvfp4)
