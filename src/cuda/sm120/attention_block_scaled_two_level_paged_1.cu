// Attention over NVFP4 in pages by block-scaled instructions, two-level probabilities.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(two_level_paged_nvfp4_64_1, 2, Nvfp4Keys, 64, 1, Values::two_level,
                                 1, 2, true)
MICROSCALE_BLOCK_ATTENTION_ENTRY(two_level_paged_nvfp4_128_1, 2, Nvfp4Keys, 128, 1,
                                 Values::two_level, 1, 1, true)
MICROSCALE_BLOCK_ATTENTION_ENTRY(two_level_paged_nvfp4_256_1, 1, Nvfp4Keys, 256, 1,
                                 Values::two_level, 1, 1, true)
