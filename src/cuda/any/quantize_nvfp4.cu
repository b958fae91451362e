// NVFP4: dense to E2M1 codes and E4M3 scales, the global scale given in device memory.
#include "cuda/any/quantize_entries.cuh"
#include "cuda/block/nvfp4_format.cuh"

using Plain = microscale::cuda::Nvfp4Format<false>;
using Searching = microscale::cuda::Nvfp4Format<true>;

MICROSCALE_QUANTIZE_ENTRIES(nvfp4, plain, Plain)
MICROSCALE_QUANTIZE_ENTRIES(nvfp4, search, Searching)
