// All levels, compiled at once: a ladder of small kernels, one entry point or two a file.
#include "1_thread_per_row.cuh"
#include "2_split_k.cuh"
#include "3_warp_per_row.cuh"
#include "4_wide_loads.cuh"
#include "5_four_chains.cuh"
#include "6_unroll_and_registers.cuh"
#include "7_prefetch.cuh"
#include "8_matrix_unit.cuh"
