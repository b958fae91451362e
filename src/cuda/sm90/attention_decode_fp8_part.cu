// Attention of up to 8 or 16 rows over a cache in FP8 whose d is less than the kernel's.
#include "cuda/tile/attention_decode.cuh"

MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_fp8_64_8_part, DecodeFp8, 64, 1, 4, part)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_fp8_64_16_part, DecodeFp8, 64, 2, 3, part)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_fp8_128_8_part, DecodeFp8, 128, 1, 3, part)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_fp8_128_16_part, DecodeFp8, 128, 2, 2, part)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_fp8_256_8_part, DecodeFp8, 256, 1, 2, part)
