// NVFP4: dense to E2M1 codes and E4M3 scales along columns, and along both axes from one read.
#include "cuda/any/quantize_columns_entries.cuh"
#include "cuda/block/nvfp4_format.cuh"

using Plain = microscale::cuda::Nvfp4Format<false>;
using Searching = microscale::cuda::Nvfp4Format<true>;

MICROSCALE_COLUMNS_ENTRIES(nvfp4, plain, Plain)
MICROSCALE_COLUMNS_ENTRIES(nvfp4, search, Searching)
