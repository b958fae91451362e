// Grouped MXFP8_E5M2: many experts' rows to E5M2 codes and E8M0 scales.
#include "cuda/any/grouped_entries.cuh"
#include "cuda/block/mx_format.cuh"

using Plain = microscale::cuda::MxFormat<microscale::E5M2, false>;
using Searching = microscale::cuda::MxFormat<microscale::E5M2, true>;

MICROSCALE_GROUPED_ENTRIES(mxfp8_e5m2, plain, Plain)
MICROSCALE_GROUPED_ENTRIES(mxfp8_e5m2, search, Searching)
