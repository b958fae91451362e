// The entry points of the products of few rows for one format of weights.
#pragma once

#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/fallback/one_row.cuh"
#include "cuda/matmul/fallback/kernel.cuh"
#include "cuda/matmul/fallback/one_row_weights.cuh"
#include "cuda/matmul/fallback/weights_packed.cuh"
#include "cuda/matmul/fallback/weights_plain.cuh"

#define MICROSCALE_MATMUL_ROWS_ENTRY(name, tiles, scaled, ...)                         \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::matmul_rows_threads)  \
      name(const __grid_constant__ microscale::cuda::MatmulRowsArgs args) {            \
    microscale::cuda::follow_previous_grid();                                          \
    microscale::cuda::matmul_rows<microscale::cuda::__VA_ARGS__, scaled, tiles>(args); \
  }

// a of 8 or 16 rows at a time; `unit`: without block scales, `scaled`: MX.
#define MICROSCALE_MATMUL_ROWS_ENTRIES(name, scaled, ...)        \
  MICROSCALE_MATMUL_ROWS_ENTRY(name##_8, 1, scaled, __VA_ARGS__) \
  MICROSCALE_MATMUL_ROWS_ENTRY(name##_16, 2, scaled, __VA_ARGS__)

// The same where Hopper's kernels for many rows take all that has more than eight
// (cuda/matmul/in_registers/launch.hpp).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 1000
#define MICROSCALE_MATMUL_FEW_ROWS_ENTRIES(name, scaled, ...) \
  MICROSCALE_MATMUL_ROWS_ENTRY(name##_8, 1, scaled, __VA_ARGS__)
#else
#define MICROSCALE_MATMUL_FEW_ROWS_ENTRIES MICROSCALE_MATMUL_ROWS_ENTRIES
#endif

// One row of a at a time, plain weights; `blocks` a multiprocessor, or too little is under way.
#define MICROSCALE_MATMUL_LINE_ENTRY(name, blocks, scaled, ...)                               \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::matmul_rows_threads, blocks) \
      name(const __grid_constant__ microscale::cuda::MatmulRowsArgs args) {                   \
    microscale::cuda::follow_previous_grid();                                                 \
    microscale::cuda::matmul_row<microscale::cuda::__VA_ARGS__, scaled>(args);                \
  }
