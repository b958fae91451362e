// Names the entry points of one format of packed weights: 8 rows of a at a time, of FP16 or of
// BF16.
#pragma once

#include "cuda/matmul/few_rows/stream_kernel.cuh"
#include "cuda/matmul/few_rows/stream_packed.cuh"
#include "cuda/matmul/fallback/weights_packed.cuh"

#define MICROSCALE_MATMUL_STREAM_ENTRY(name, Weights, rows)                              \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::stream_threads, 1)      \
      matmul_stream_##name##_##rows(                                                     \
          const __grid_constant__ microscale::cuda::MatmulStreamArgs args) {             \
    microscale::cuda::MatmulStream<                                                      \
        microscale::cuda::StreamPacked<microscale::cuda::Weights, rows / 8>>::run(args); \
  }

#define MICROSCALE_MATMUL_STREAM_ENTRIES(format, Weights) \
  MICROSCALE_MATMUL_STREAM_ENTRY(format, Weights, 8)      \
  MICROSCALE_MATMUL_STREAM_ENTRY(format##_bf16, Weights##Bf16, 8)
