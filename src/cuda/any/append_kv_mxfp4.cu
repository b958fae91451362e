// New tokens into a cache in MXFP4.
#include "cuda/any/append_kv_entries.cuh"

namespace microscale::cuda {
using AppendMxfp4 = MxFormat<E2M1, false>;
using AppendMxfp4Search = MxFormat<E2M1, true>;
}  // namespace microscale::cuda

MICROSCALE_APPEND_KV_ENTRIES(mxfp4, plain, 4, AppendMxfp4)
MICROSCALE_APPEND_KV_ENTRIES(mxfp4, search, 3, AppendMxfp4Search)
MICROSCALE_APPEND_KEYS_ENTRIES(mxfp4, plain, AppendMxfp4)
MICROSCALE_APPEND_KEYS_ENTRIES(mxfp4, search, AppendMxfp4Search)
MICROSCALE_APPEND_ROWS_ENTRY(mxfp4, plain, AppendMxfp4)
MICROSCALE_APPEND_ROWS_ENTRY(mxfp4, search, AppendMxfp4Search)
MICROSCALE_APPEND_GENERAL_ENTRY(mxfp4, E2M1, 32, true)
