// Products of few rows with packed weights in MXFP4, streamed.
#include "cuda/tile/matmul_stream.cuh"
#include "cuda/tile/stream_packed.cuh"
#include "cuda/tile/weights_packed.cuh"

MICROSCALE_MATMUL_STREAM_ENTRY(matmul_stream_mxfp4_8, StreamPacked<microscale::cuda::PackedMxfp4, 1>)
MICROSCALE_MATMUL_STREAM_ENTRY(matmul_stream_mxfp4_16, StreamPacked<microscale::cuda::PackedMxfp4, 2>)
MICROSCALE_MATMUL_STREAM_ENTRY(matmul_stream_mxfp4_bf16_8,
                               StreamPacked<microscale::cuda::PackedMxfp4Bf16, 1>)
MICROSCALE_MATMUL_STREAM_ENTRY(matmul_stream_mxfp4_bf16_16,
                               StreamPacked<microscale::cuda::PackedMxfp4Bf16, 2>)
