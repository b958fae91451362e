// Products of few rows with weights in MXFP8 (E4M3).
#include "cuda/any/matmul_rows_entries.cuh"

MICROSCALE_MATMUL_ROWS_ENTRIES(matmul_rows_mxfp8_e4m3_packed_unit, false,
                               PackedMxfp8<microscale::E4M3>)
MICROSCALE_MATMUL_FEW_ROWS_ENTRIES(matmul_rows_mxfp8_e4m3_packed_scaled, true,
                                   PackedMxfp8<microscale::E4M3>)
MICROSCALE_MATMUL_ROWS_ENTRIES(matmul_rows_mxfp8_e4m3_plain_unit, false,
                               PlainMxfp8<microscale::E4M3>)
MICROSCALE_MATMUL_ROWS_ENTRIES(matmul_rows_mxfp8_e4m3_plain_scaled, true,
                               PlainMxfp8<microscale::E4M3>)
MICROSCALE_MATMUL_LINE_ENTRY(matmul_rows_mxfp8_e4m3_plain_unit_1, 3, false,
                             LineFp8<microscale::E4M3>)
MICROSCALE_MATMUL_LINE_ENTRY(matmul_rows_mxfp8_e4m3_plain_scaled_1, 2, true,
                             LineFp8<microscale::E4M3>)
