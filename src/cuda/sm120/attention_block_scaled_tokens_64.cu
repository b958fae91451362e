// Attention over NVFP4 by block-scaled instructions, d = 64: V's blocks along the tokens.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(tokens_nvfp4_64_1, 4, Nvfp4Keys, 64, 1, Values::tokens, 1, 1)
MICROSCALE_BLOCK_ATTENTION_ENTRY(tokens_nvfp4_64_2, 3, Nvfp4Keys, 64, 2, Values::tokens, 2, 1)
