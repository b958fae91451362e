// Products of few rows with packed weights in MXFP4, streamed.
#include "cuda/sm90/matmul_stream_entries.cuh"

MICROSCALE_MATMUL_STREAM_ENTRIES(mxfp4, PackedMxfp4)
