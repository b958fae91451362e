// Dense operands of attention to codes for block-scaled instructions.
#include "cuda/attention/block_scaled/prepare.cuh"

MICROSCALE_PREPARE_ATTENTION_ENTRY(rows_nvfp4, PrepareRowsArgs, prepare_rows<PreparedNvfp4>)
MICROSCALE_PREPARE_ATTENTION_ENTRY(rows_mxfp4, PrepareRowsArgs, prepare_rows<PreparedMxfp4>)
MICROSCALE_PREPARE_ATTENTION_ENTRY(rows_mxfp8, PrepareRowsArgs, prepare_rows<PreparedMxfp8>)
MICROSCALE_PREPARE_ATTENTION_ENTRY(values_nvfp4, PrepareValuesArgs, prepare_values)
