// New tokens into a cache in MXFP8.
#include "cuda/any/append_kv_entries.cuh"

namespace microscale::cuda {
using AppendMxfp8 = MxFormat<E4M3, false>;
using AppendMxfp8Search = MxFormat<E4M3, true>;
}  // namespace microscale::cuda

MICROSCALE_APPEND_KV_ENTRIES(mxfp8, plain, 4, AppendMxfp8)
MICROSCALE_APPEND_KV_ENTRIES(mxfp8, search, 3, AppendMxfp8Search)
MICROSCALE_APPEND_KEYS_ENTRIES(mxfp8, plain, AppendMxfp8)
MICROSCALE_APPEND_KEYS_ENTRIES(mxfp8, search, AppendMxfp8Search)
MICROSCALE_APPEND_ROWS_ENTRY(mxfp8, plain, AppendMxfp8)
MICROSCALE_APPEND_ROWS_ENTRY(mxfp8, search, AppendMxfp8Search)
MICROSCALE_APPEND_GENERAL_ENTRY(mxfp8, E4M3, 32, true)
