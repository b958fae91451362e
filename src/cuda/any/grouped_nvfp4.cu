// Grouped NVFP4: many experts' rows, each expert with its own global scale in device memory.
#include "cuda/any/grouped_entries.cuh"
#include "cuda/block/nvfp4_format.cuh"

using Plain = microscale::cuda::Nvfp4Format<false>;
using Searching = microscale::cuda::Nvfp4Format<true>;

MICROSCALE_GROUPED_ENTRIES(nvfp4, plain, Plain)
MICROSCALE_GROUPED_ENTRIES(nvfp4, search, Searching)
