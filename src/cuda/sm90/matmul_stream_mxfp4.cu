// Products of few rows with packed weights in MXFP4, streamed. Of FP16 also 16 rows at a time: the
// kernels for more rows (cuda/matmul/in_registers) have none for FP16 by MXFP4.
#include "cuda/sm90/matmul_stream_entries.cuh"

MICROSCALE_MATMUL_STREAM_ENTRIES(mxfp4, PackedMxfp4)
MICROSCALE_MATMUL_STREAM_ENTRY(mxfp4, PackedMxfp4, 16)
