// What a backend offers for the rows that append_kv quantizes: the seam between ops/append_kv and
// its kernels. Every backend gives the same bits (reference/kv_rows.hpp).
#pragma once

#include <cstdint>

#include "microscale/kv_cache.hpp"

namespace microscale {

struct KvRowKernels {
  /// `count` dense elements in FP32; count is a multiple of 32.
  void (*to_floats)(const void* elements, DType type, std::int64_t count, float* output);
  /// A row of K in FP32 becomes the one at `position` of kv head `head` that is quantized.
  void (*transform_key)(const AppendKvOptions& options, std::int64_t head, std::int64_t position,
                        float* row);
  /// E4M3 codes of values * inverse_scale, nearest even, saturating; count is a multiple of 32.
  void (*quantize_fp8)(const float* values, std::int64_t count, float inverse_scale,
                       std::uint8_t* codes);
};

}  // namespace microscale
