// Attention of up to 8 or 16 rows over a cache in NVFP4 whose d is less than the kernel's.
#include "cuda/tile/attention_decode.cuh"

MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_nvfp4_64_8_part, DecodeNvfp4, 64, 1, 4, part)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_nvfp4_64_16_part, DecodeNvfp4, 64, 2, 3, part)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_nvfp4_128_8_part, DecodeNvfp4, 128, 1, 3, part)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_nvfp4_128_16_part, DecodeNvfp4, 128, 2, 2, part)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_nvfp4_256_8_part, DecodeNvfp4, 256, 1, 2, part)
