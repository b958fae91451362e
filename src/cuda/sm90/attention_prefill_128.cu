// Attention of many queries, rows of up to 128 elements.
#include "cuda/tile/attention_prefill.cuh"
#include "cuda/tile/attention_products_f16.cuh"

MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_128, F16Products<128, false>)
MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_128_softcap, F16Products<128, true>)
