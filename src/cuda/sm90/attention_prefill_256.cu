// Attention of many queries, rows of up to 256 elements.
#include "cuda/tile/attention_prefill.cuh"

MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_256, 256, false)
MICROSCALE_ATTENTION_PREFILL_ENTRY(attention_prefill_256_softcap, 256, true)
