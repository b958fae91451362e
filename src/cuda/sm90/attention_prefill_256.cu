// Attention of many queries, rows of up to 256 elements.
#include "cuda/attention/prefill/kernel.cuh"
#include "cuda/attention/prefill/products_f16.cuh"

MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_256, F16Products<256, false>)
MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_256_softcap, F16Products<256, true>)
