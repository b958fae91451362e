// Attention of up to 8 or 16 rows over a cache in FP8.
#include "cuda/tile/attention_decode.cuh"

MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_fp8_64_8, DecodeFp8, 64, 1, 4, rows)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_fp8_64_16, DecodeFp8, 64, 2, 3, rows)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_fp8_128_8, DecodeFp8, 128, 1, 4, rows)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_fp8_128_16, DecodeFp8, 128, 2, 2, rows)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_fp8_256_8, DecodeFp8, 256, 1, 2, rows)
