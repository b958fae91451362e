// Grouped MXFP8_E4M3: many experts' rows to E4M3 codes and E8M0 scales.
#include "cuda/any/grouped_entries.cuh"
#include "cuda/block/mx_format.cuh"

using Plain = microscale::cuda::MxFormat<microscale::E4M3, false>;
using Searching = microscale::cuda::MxFormat<microscale::E4M3, true>;

MICROSCALE_GROUPED_ENTRIES(mxfp8_e4m3, plain, Plain)
MICROSCALE_GROUPED_ENTRIES(mxfp8_e4m3, search, Searching)
