// Grouped MXFP4: many experts' rows to E2M1 codes and E8M0 scales.
#include "cuda/any/grouped_entries.cuh"
#include "cuda/block/mx_format.cuh"

using Plain = microscale::cuda::MxFormat<microscale::E2M1, false>;
using Searching = microscale::cuda::MxFormat<microscale::E2M1, true>;

MICROSCALE_GROUPED_ENTRIES(mxfp4, plain, Plain)
MICROSCALE_GROUPED_ENTRIES(mxfp4, search, Searching)
