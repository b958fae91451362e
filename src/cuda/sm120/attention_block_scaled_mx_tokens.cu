// Attention over MXFP4 keys by block-scaled instructions, q in MXFP4 or MXFP8: V in NVFP4 with its
// blocks along the tokens.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(tokens_mxfp4_mxfp4_64_1, 3, Mxfp4Keys, 64, 1, Values::tokens, 1, 1)
MICROSCALE_BLOCK_ATTENTION_ENTRY(tokens_mxfp4_mxfp4_128_1, 2, Mxfp4Keys, 128, 1, Values::tokens, 1,
                                 1)
MICROSCALE_BLOCK_ATTENTION_ENTRY(tokens_mxfp8_e4m3_mxfp4_64_1, 3, MixedKeys, 64, 1, Values::tokens,
                                 1, 1)
MICROSCALE_BLOCK_ATTENTION_ENTRY(tokens_mxfp8_e4m3_mxfp4_128_1, 2, MixedKeys, 128, 1,
                                 Values::tokens, 1, 1)
