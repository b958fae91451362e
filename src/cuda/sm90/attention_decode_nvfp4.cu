// Attention of up to 8 or 16 rows over a cache in NVFP4.
#include "cuda/tile/attention_decode.cuh"

MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_nvfp4_64_8, DecodeNvfp4, 64, 1, 4, rows)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_nvfp4_64_16, DecodeNvfp4, 64, 2, 3, rows)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_nvfp4_128_8, DecodeNvfp4, 128, 1, 4, rows)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_nvfp4_128_16, DecodeNvfp4, 128, 2, 2, rows)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_nvfp4_256_8, DecodeNvfp4, 256, 1, 2, rows)
