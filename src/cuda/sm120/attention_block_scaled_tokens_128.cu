// Attention over NVFP4 by block-scaled instructions, d = 128: V's blocks along the tokens.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(tokens_nvfp4_128_1, 3, Nvfp4Keys, 128, 1, Values::tokens, 1, 1)
MICROSCALE_BLOCK_ATTENTION_ENTRY(tokens_nvfp4_128_2, 2, Nvfp4Keys, 128, 2, Values::tokens, 2, 1)
