// Attention of up to 8 or 16 rows over a cache in MXFP8 whose d is less than the kernel's.
#include "cuda/any/attention_decode_entries.cuh"

MICROSCALE_ATTENTION_DECODE_ENTRIES(mxfp8, DecodeMxfp8, 3, part, _part)
