// Attention over NVFP4 in pages by block-scaled instructions, two-level probabilities.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(two_level_paged_nvfp4_64_2, 2, Nvfp4Keys, 64, 2, Values::two_level,
                                 2, 1, true)
MICROSCALE_BLOCK_ATTENTION_ENTRY(two_level_paged_nvfp4_128_2, 2, Nvfp4Keys, 128, 2,
                                 Values::two_level, 2, 1, true)
