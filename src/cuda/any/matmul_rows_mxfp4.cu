// Products of few rows with weights in MXFP4.
#include "cuda/any/matmul_rows_entries.cuh"

MICROSCALE_MATMUL_ROWS_ENTRIES(matmul_rows_mxfp4_packed_unit, false, PackedMxfp4)
MICROSCALE_MATMUL_FEW_ROWS_ENTRIES(matmul_rows_mxfp4_packed_scaled, true, PackedMxfp4)
MICROSCALE_MATMUL_ROWS_ENTRIES(matmul_rows_mxfp4_plain_unit, false, PlainMxfp4)
MICROSCALE_MATMUL_ROWS_ENTRIES(matmul_rows_mxfp4_plain_scaled, true, PlainMxfp4)
MICROSCALE_MATMUL_LINE_ENTRY(matmul_rows_mxfp4_plain_unit_1, 4, false, LineFp4<32>)
MICROSCALE_MATMUL_LINE_ENTRY(matmul_rows_mxfp4_plain_scaled_1, 3, true, LineFp4<32>)
