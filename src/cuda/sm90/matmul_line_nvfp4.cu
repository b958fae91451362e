// Products of one row with plain weights in NVFP4, streamed.
#include "cuda/matmul/few_rows/line_kernel.cuh"

MICROSCALE_LINE_STREAM_ENTRY(matmul_line_nvfp4_codes, 16, LineByCodes)
MICROSCALE_LINE_STREAM_ENTRY(matmul_line_nvfp4_dense, 16, LineByDense)
