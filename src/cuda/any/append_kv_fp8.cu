// New tokens into a cache in FP8 with one scale.
#include "cuda/any/append_kv_entries.cuh"

MICROSCALE_APPEND_KV_ENTRIES(fp8, plain, 4, AppendFp8)
MICROSCALE_APPEND_KEYS_ENTRIES(fp8, plain, AppendFp8)
MICROSCALE_APPEND_ROWS_ENTRY(fp8, plain, AppendFp8)
