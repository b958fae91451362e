// Attention over NVFP4 by block-scaled instructions, d = 256: V's blocks along the tokens.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(tokens_nvfp4_256_1, 2, Nvfp4Keys, 256, 1, Values::tokens, 1, 1)
MICROSCALE_BLOCK_ATTENTION_ENTRY(tokens_nvfp4_256_2, 1, Nvfp4Keys, 256, 2, Values::tokens, 2, 1)
