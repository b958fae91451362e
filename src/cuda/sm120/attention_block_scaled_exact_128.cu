// Attention over NVFP4 by block-scaled instructions, d = 128: probabilities in FP16, V's blocks
// along d.
#include "cuda/attention/block_scaled/kernel.cuh"

MICROSCALE_BLOCK_ATTENTION_ENTRY(exact_nvfp4_128_1, 2, Nvfp4Keys, 128, 1, Values::exact, 1, 1)
MICROSCALE_BLOCK_ATTENTION_ENTRY(exact_nvfp4_128_2, 2, Nvfp4Keys, 128, 2, Values::exact, 1, 1)
