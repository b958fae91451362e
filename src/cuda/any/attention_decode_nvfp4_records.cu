// Attention of up to 4, 8 or 16 rows over a cache in NVFP4 whose pages are records of 16 or 32
// tokens.
#include "cuda/any/attention_decode_entries.cuh"

MICROSCALE_ATTENTION_DECODE_ENTRIES(nvfp4, DecodeNvfp4, 4, records, _records)
MICROSCALE_ATTENTION_DECODE_FEW_ENTRIES(nvfp4, DecodeNvfp4, 4, records, _records)
