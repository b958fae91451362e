// Products of few rows with packed weights in NVFP4, streamed.
#include "cuda/tile/matmul_stream.cuh"
#include "cuda/tile/weights_packed.cuh"

MICROSCALE_MATMUL_STREAM_ENTRY(matmul_stream_nvfp4_8, 1, PackedNvfp4)
MICROSCALE_MATMUL_STREAM_ENTRY(matmul_stream_nvfp4_16, 2, PackedNvfp4)
