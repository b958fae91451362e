// Attention of up to 8 or 16 rows over the tokens that are kept in BF16.
#include "cuda/tile/attention_copies.cuh"

#define MICROSCALE_ATTENTION_COPIES_ENTRY(name, d, rows)                            \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::decode_threads, 4) \
      name(const __grid_constant__ microscale::cuda::AttentionDecodeArgs args) {    \
    microscale::cuda::AttentionCopies<d, rows>::run(args);                          \
  }

MICROSCALE_ATTENTION_COPIES_ENTRY(attention_copies_64_8, 64, 8)
MICROSCALE_ATTENTION_COPIES_ENTRY(attention_copies_64_16, 64, 16)
MICROSCALE_ATTENTION_COPIES_ENTRY(attention_copies_128_8, 128, 8)
MICROSCALE_ATTENTION_COPIES_ENTRY(attention_copies_128_16, 128, 16)
MICROSCALE_ATTENTION_COPIES_ENTRY(attention_copies_256_8, 256, 8)
