// Attention over NVFP4 by block-scaled instructions, d = 64: two-level probabilities, V's blocks
// along d.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(two_level_nvfp4_64_1, 2, Nvfp4Keys, 64, 1, Values::two_level, 1, 2)
MICROSCALE_BLOCK_ATTENTION_ENTRY(two_level_nvfp4_64_2, 2, Nvfp4Keys, 64, 2, Values::two_level, 2, 1)
