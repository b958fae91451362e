// Products of few rows with weights in NVFP4.
#include "cuda/any/matmul_rows_entries.cuh"

MICROSCALE_MATMUL_FEW_ROWS_ENTRIES(matmul_rows_nvfp4_packed_unit, false, PackedNvfp4)
MICROSCALE_MATMUL_FEW_ROWS_ENTRIES(matmul_rows_nvfp4_packed_scaled, true, PackedNvfp4)
MICROSCALE_MATMUL_ROWS_ENTRIES(matmul_rows_nvfp4_plain_unit, false, PlainNvfp4Lines)
MICROSCALE_MATMUL_ROWS_ENTRIES(matmul_rows_nvfp4_plain_scaled, true, PlainNvfp4Blocks)
MICROSCALE_MATMUL_LINE_ENTRY(matmul_rows_nvfp4_plain_unit_1, 4, false, LineFp4<16>)
MICROSCALE_MATMUL_LINE_ENTRY(matmul_rows_nvfp4_plain_scaled_1, 4, true, LineFp4<16>)
