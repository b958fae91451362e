// Attention over NVFP4 by block-scaled instructions, d = 256: two-level probabilities, V's blocks
// along d.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(two_level_nvfp4_256_1, 1, Nvfp4Keys, 256, 1, Values::two_level, 1,
                                 1)
