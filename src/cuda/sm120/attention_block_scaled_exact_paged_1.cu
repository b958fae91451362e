// Attention over NVFP4 in pages by block-scaled instructions, probabilities in FP16.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(exact_paged_nvfp4_64_1, 2, Nvfp4Keys, 64, 1, Values::exact, 1, 2,
                                 true)
MICROSCALE_BLOCK_ATTENTION_ENTRY(exact_paged_nvfp4_128_1, 2, Nvfp4Keys, 128, 1, Values::exact, 1, 1,
                                 true)
MICROSCALE_BLOCK_ATTENTION_ENTRY(exact_paged_nvfp4_256_1, 1, Nvfp4Keys, 256, 1, Values::exact, 1, 1,
                                 true)
