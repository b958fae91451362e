// Attention over NVFP4 by block-scaled instructions, d = 128: two-level probabilities, V's blocks
// along d.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(two_level_nvfp4_128_1, 2, Nvfp4Keys, 128, 1, Values::two_level, 1,
                                 1)
MICROSCALE_BLOCK_ATTENTION_ENTRY(two_level_nvfp4_128_2, 2, Nvfp4Keys, 128, 2, Values::two_level, 2,
                                 1)
