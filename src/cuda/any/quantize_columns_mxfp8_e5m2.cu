// MXFP8_E5M2: dense to E5M2 codes and E8M0 scales along columns, and along both axes from one read.
#include "cuda/any/quantize_columns_entries.cuh"
#include "cuda/block/mx_format.cuh"

using Plain = microscale::cuda::MxFormat<microscale::E5M2, false>;
using Searching = microscale::cuda::MxFormat<microscale::E5M2, true>;

MICROSCALE_COLUMNS_ENTRIES(mxfp8_e5m2, plain, Plain)
MICROSCALE_COLUMNS_ENTRIES(mxfp8_e5m2, search, Searching)
