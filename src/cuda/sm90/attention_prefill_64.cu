// Attention of many queries, rows of up to 64 elements.
#include "cuda/tile/attention_prefill.cuh"

MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_64, 64, false)
MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_64_softcap, 64, true)
