// Attention of up to 8 or 16 rows over a cache in MXFP4.
#include "cuda/any/attention_decode_entries.cuh"

MICROSCALE_ATTENTION_DECODE_ENTRIES(mxfp4, DecodeMxfp4, 4, rows)
