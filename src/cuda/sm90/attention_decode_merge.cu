// Parts of the keys, whose sums attention_decode_... left, into results.
#include "cuda/tile/attention_merge.cuh"

#define MICROSCALE_ATTENTION_MERGE_ENTRY(name, d, rows)                          \
  extern "C" __global__ void __launch_bounds__(256)                              \
      name(const __grid_constant__ microscale::cuda::AttentionDecodeArgs args) { \
    microscale::cuda::AttentionDecodeMerge<d, rows>::run(args);                  \
  }

MICROSCALE_ATTENTION_MERGE_ENTRY(attention_decode_merge_64_8, 64, 8)
MICROSCALE_ATTENTION_MERGE_ENTRY(attention_decode_merge_64_16, 64, 16)
MICROSCALE_ATTENTION_MERGE_ENTRY(attention_decode_merge_128_8, 128, 8)
MICROSCALE_ATTENTION_MERGE_ENTRY(attention_decode_merge_128_16, 128, 16)
MICROSCALE_ATTENTION_MERGE_ENTRY(attention_decode_merge_256_8, 256, 8)
