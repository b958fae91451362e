// Products of few rows with weights in NVFP4, streamed.
#include "cuda/sm90/matmul_stream_entries.cuh"

MICROSCALE_MATMUL_STREAM_ENTRIES(nvfp4, PackedNvfp4)
