// New tokens into a cache in NVFP4.
#include "cuda/any/append_kv_entries.cuh"

namespace microscale::cuda {
using AppendNvfp4 = Nvfp4Format<false>;
using AppendNvfp4Search = Nvfp4Format<true>;
}  // namespace microscale::cuda

MICROSCALE_APPEND_KV_ENTRIES(nvfp4, plain, 4, AppendNvfp4)
MICROSCALE_APPEND_KV_ENTRIES(nvfp4, search, 3, AppendNvfp4Search)
MICROSCALE_APPEND_KEYS_ENTRIES(nvfp4, plain, AppendNvfp4)
MICROSCALE_APPEND_KEYS_ENTRIES(nvfp4, search, AppendNvfp4Search)
MICROSCALE_APPEND_ROWS_ENTRY(nvfp4, plain, AppendNvfp4)
MICROSCALE_APPEND_ROWS_ENTRY(nvfp4, search, AppendNvfp4Search)
MICROSCALE_APPEND_GENERAL_ENTRY(nvfp4, E2M1, 16, false)
