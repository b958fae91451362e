// Attention of up to 4, 8 or 16 rows over a cache in NVFP4 whose d is less than the kernel's.
#include "cuda/any/attention_decode_entries.cuh"

MICROSCALE_ATTENTION_DECODE_ENTRIES(nvfp4, DecodeNvfp4, 3, part, _part)
MICROSCALE_ATTENTION_DECODE_FEW_ENTRIES(nvfp4, DecodeNvfp4, 3, part, _part)
