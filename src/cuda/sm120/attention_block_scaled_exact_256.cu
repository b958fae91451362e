// Attention over NVFP4 by block-scaled instructions, d = 256: probabilities in FP16, V's blocks
// along d.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(exact_nvfp4_256_1, 1, Nvfp4Keys, 256, 1, Values::exact, 1, 1)
MICROSCALE_BLOCK_ATTENTION_ENTRY(exact_nvfp4_256_2, 1, Nvfp4Keys, 256, 2, Values::exact, 1, 1)
