// Attention of many queries, all of MXFP4, probabilities in FP8.
#include "cuda/attention/prefill/kernel.cuh"
#include "cuda/attention/prefill/products_fp8.cuh"

MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_fp8, Fp8Products<false>)
MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_fp8_softcap, Fp8Products<true>)

extern "C" __global__ void __launch_bounds__(microscale::cuda::prefill_expand_threads)
    attention_expand_fp8(const __grid_constant__ microscale::cuda::AttentionExpandArgs args) {
  microscale::cuda::AttentionExpandFp8::run(args);
}
