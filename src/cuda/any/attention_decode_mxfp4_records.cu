// Attention of up to 8 or 16 rows over a cache in MXFP4 whose pages are records of 16 or 32 tokens.
#include "cuda/any/attention_decode_entries.cuh"

MICROSCALE_ATTENTION_DECODE_ENTRIES(mxfp4, DecodeMxfp4, 4, records, _records)
