// Products of few rows with weights in NVFP4, streamed.
#include "cuda/tile/matmul_stream.cuh"
#include "cuda/tile/stream_packed.cuh"
#include "cuda/tile/weights_packed.cuh"

MICROSCALE_MATMUL_STREAM_ENTRY(matmul_stream_nvfp4_8, StreamPacked<microscale::cuda::PackedNvfp4, 1>)
MICROSCALE_MATMUL_STREAM_ENTRY(matmul_stream_nvfp4_bf16_8,
                               StreamPacked<microscale::cuda::PackedNvfp4Bf16, 1>)
MICROSCALE_MATMUL_STREAM_ENTRY(matmul_stream_nvfp4_bf16_16,
                               StreamPacked<microscale::cuda::PackedNvfp4Bf16, 2>)
MICROSCALE_MATMUL_STREAM_ENTRY(matmul_stream_nvfp4_16, StreamPacked<microscale::cuda::PackedNvfp4, 2>)
