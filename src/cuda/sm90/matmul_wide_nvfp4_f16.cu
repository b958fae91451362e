// Products of NVFP4, products in FP16 weights and many rows of a.
#include "cuda/matmul/in_registers/kernel.cuh"

MICROSCALE_WIDE_ENTRIES(nvfp4_f16, WideNvfp4F16)
