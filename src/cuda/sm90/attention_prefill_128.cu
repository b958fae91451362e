// Attention of many queries, rows of up to 128 elements.
#include "cuda/attention/prefill/kernel.cuh"
#include "cuda/attention/prefill/products_f16.cuh"

MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_128, F16Products<128, false>)
MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_128_softcap, F16Products<128, true>)
