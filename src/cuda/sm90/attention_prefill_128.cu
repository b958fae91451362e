// Attention of many queries, rows of up to 128 elements.
#include "cuda/tile/attention_prefill.cuh"

MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_128, 128, false)
MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_128_softcap, 128, true)
