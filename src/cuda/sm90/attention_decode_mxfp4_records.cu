// Attention of up to 8 or 16 rows over a cache in MXFP4 whose pages are records of 16 or 32 tokens.
#include "cuda/tile/attention_decode.cuh"

MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_mxfp4_64_8_records, DecodeMxfp4, 64, 1, 4,
                                  records)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_mxfp4_64_16_records, DecodeMxfp4, 64, 2, 3,
                                  records)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_mxfp4_128_8_records, DecodeMxfp4, 128, 1, 4,
                                  records)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_mxfp4_128_16_records, DecodeMxfp4, 128, 2, 2,
                                  records)
MICROSCALE_ATTENTION_DECODE_ENTRY(attention_decode_mxfp4_256_8_records, DecodeMxfp4, 256, 1, 2,
                                  records)
