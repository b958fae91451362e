// Names the entry points of append_kv.
#pragma once

#include "cuda/append_kv/append_keys.cuh"
#include "cuda/append_kv/append_transformed.cuh"
#include "cuda/block/grid_order.cuh"

/// `blocks`: that a multiprocessor shall hold.
#define MICROSCALE_APPEND_ENTRY(name, blocks, ...)                                       \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::append_threads, blocks) \
      name(const __grid_constant__ microscale::cuda::AppendKvArgs args) {                \
    microscale::cuda::follow_previous_grid();                                            \
    using namespace microscale;                                                          \
    using namespace microscale::cuda;                                                    \
    cuda::__VA_ARGS__(args);                                                             \
  }

/// Values as they lie in memory, of either 16-bit type.
#define MICROSCALE_APPEND_KV_ENTRIES(format, mode, blocks, Format)                              \
  MICROSCALE_APPEND_ENTRY(append_kv_##format##_f16_##mode, blocks, append_kv<Format, InputF16>) \
  MICROSCALE_APPEND_ENTRY(append_kv_##format##_bf16_##mode, blocks, append_kv<Format, InputBf16>)

/// Keys that are transformed, of either 16-bit type.
#define MICROSCALE_APPEND_KEYS_ENTRIES(format, mode, Format)                                   \
  MICROSCALE_APPEND_ENTRY(append_keys_##format##_f16_##mode, 2, append_keys<Format, InputF16>) \
  MICROSCALE_APPEND_ENTRY(append_keys_##format##_bf16_##mode, 2, append_keys<Format, InputBf16>)

/// Values of any type by way of FP32, and keys that are transformed.
#define MICROSCALE_APPEND_ROWS_ENTRY(format, mode, Format) \
  MICROSCALE_APPEND_ENTRY(append_rows_##format##_##mode, 2, append_rows<Format>)

/// The same under every scale rule.
#define MICROSCALE_APPEND_GENERAL_ENTRY(format, Codec, count, e8m0) \
  MICROSCALE_APPEND_ENTRY(append_rows_##format##_general, 2,        \
                          append_rows_general<Codec, count, e8m0>)
