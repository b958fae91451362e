// MXFP8_E4M3: dense to E4M3 codes and E8M0 scales along columns, and along both axes from one read.
#include "cuda/any/quantize_columns_entries.cuh"
#include "cuda/block/mx_format.cuh"

using Plain = microscale::cuda::MxFormat<microscale::E4M3, false>;
using Searching = microscale::cuda::MxFormat<microscale::E4M3, true>;

MICROSCALE_COLUMNS_ENTRIES(mxfp8_e4m3, plain, Plain)
MICROSCALE_COLUMNS_ENTRIES(mxfp8_e4m3, search, Searching)
