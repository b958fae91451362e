// Products of one row with plain weights in MXFP4, streamed.
#include "cuda/matmul/few_rows/line_kernel.cuh"

MICROSCALE_LINE_STREAM_ENTRY(matmul_line_mxfp4_codes, 32, LineByCodes)
MICROSCALE_LINE_STREAM_ENTRY(matmul_line_mxfp4_dense, 32, LineByDense)
