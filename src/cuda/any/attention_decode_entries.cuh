// Names the entry points of one format of cache and one way its tokens lie: every d, 8 and 16 rows,
// and of NVFP4 4.
#pragma once

#include "cuda/attention/decode/kernel.cuh"

/// `blocks`: that a multiprocessor holds. Last: what the name ends with.
#define MICROSCALE_ATTENTION_DECODE_ENTRY(format, Codes, d, rows, blocks, tokens, ...)    \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::decode_threads, blocks)  \
      attention_decode_##format##_##d##_##rows##__VA_ARGS__(                              \
          const __grid_constant__ microscale::cuda::AttentionMergedArgs args) {           \
    microscale::cuda::AttentionDecode<microscale::cuda::Codes, d, rows,                   \
                                      microscale::cuda::DecodeTokens::tokens>::run(args); \
  }

/// `blocks`: of 8 rows of d = 128.
#define MICROSCALE_ATTENTION_DECODE_ENTRIES(format, Codes, blocks, tokens, ...)         \
  MICROSCALE_ATTENTION_DECODE_ENTRY(format, Codes, 64, 8, 4, tokens, __VA_ARGS__)       \
  MICROSCALE_ATTENTION_DECODE_ENTRY(format, Codes, 64, 16, 3, tokens, __VA_ARGS__)      \
  MICROSCALE_ATTENTION_DECODE_ENTRY(format, Codes, 128, 8, blocks, tokens, __VA_ARGS__) \
  MICROSCALE_ATTENTION_DECODE_ENTRY(format, Codes, 128, 16, 2, tokens, __VA_ARGS__)     \
  MICROSCALE_ATTENTION_DECODE_ENTRY(format, Codes, 256, 8, 2, tokens, __VA_ARGS__)

/// Of 4 rows; `blocks`: of d = 128.
#define MICROSCALE_ATTENTION_DECODE_FEW_ENTRIES(format, Codes, blocks, tokens, ...)     \
  MICROSCALE_ATTENTION_DECODE_ENTRY(format, Codes, 64, 4, 4, tokens, __VA_ARGS__)       \
  MICROSCALE_ATTENTION_DECODE_ENTRY(format, Codes, 128, 4, blocks, tokens, __VA_ARGS__) \
  MICROSCALE_ATTENTION_DECODE_ENTRY(format, Codes, 256, 4, 2, tokens, __VA_ARGS__)
