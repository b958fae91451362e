// Attention of many queries, rows of up to 64 elements.
#include "cuda/attention/prefill/kernel.cuh"
#include "cuda/attention/prefill/products_f16.cuh"

MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_64, F16Products<64, false>)
MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_64_softcap, F16Products<64, true>)
