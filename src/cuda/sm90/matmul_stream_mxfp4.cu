// Products of few rows with packed weights in MXFP4, streamed.
#include "cuda/tile/matmul_stream.cuh"
#include "cuda/tile/weights_packed.cuh"

MICROSCALE_MATMUL_STREAM_ENTRY(matmul_stream_mxfp4_8, 1, PackedMxfp4)
MICROSCALE_MATMUL_STREAM_ENTRY(matmul_stream_mxfp4_16, 2, PackedMxfp4)
