// Attention over NVFP4 by block-scaled instructions, d = 64: probabilities in FP16, V's blocks
// along d.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(exact_nvfp4_64_1, 2, Nvfp4Keys, 64, 1, Values::exact, 1, 2)
MICROSCALE_BLOCK_ATTENTION_ENTRY(exact_nvfp4_64_2, 3, Nvfp4Keys, 64, 2, Values::exact, 1, 1)
