// Products of few rows with weights in MXFP8 (E5M2). Not one at a time: an infinite weight would
// meet the zeros that matmul_row.cuh puts beside a.
#include "cuda/any/matmul_rows_entries.cuh"

MICROSCALE_MATMUL_ROWS_ENTRIES(matmul_rows_mxfp8_e5m2_packed_unit, false,
                               PackedMxfp8<microscale::E5M2>)
MICROSCALE_MATMUL_FEW_ROWS_ENTRIES(matmul_rows_mxfp8_e5m2_packed_scaled, true,
                                   PackedMxfp8<microscale::E5M2>)
MICROSCALE_MATMUL_ROWS_ENTRIES(matmul_rows_mxfp8_e5m2_plain_unit, false,
                               PlainMxfp8<microscale::E5M2>)
MICROSCALE_MATMUL_ROWS_ENTRIES(matmul_rows_mxfp8_e5m2_plain_scaled, true,
                               PlainMxfp8<microscale::E5M2>)
