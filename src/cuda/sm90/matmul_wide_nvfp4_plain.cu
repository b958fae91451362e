// Products of NVFP4, weights as they lie in a checkpoint, and many rows of a.
#include "cuda/matmul/in_registers/kernel.cuh"

MICROSCALE_WIDE_ENTRIES(nvfp4_plain, WidePlainNvfp4)
