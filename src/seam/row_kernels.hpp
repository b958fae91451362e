// What a backend offers for rows that are not quantized as they come: the seam between
// ops/append_kv and ops/fused and their kernels. Every backend gives the bits of the reference
// (reference/kv_rows.hpp, reference/producers.hpp).
#pragma once

#include <cstdint>

#include "microscale/fused.hpp"
#include "microscale/kv_cache.hpp"

namespace microscale {

struct RowKernels {
  /// `count` dense elements in FP32; count is a multiple of 16.
  void (*to_floats)(const void* elements, DType type, std::int64_t count, float* output);
  /// A row of K in FP32 becomes the one at `position` of kv head `head` that is quantized.
  void (*transform_key)(const AppendKvOptions& options, std::int64_t head, std::int64_t position,
                        float* row);
  /// E4M3 codes of values * inverse_scale, nearest even, saturating; count is a multiple of 32.
  void (*quantize_fp8)(const float* values, std::int64_t count, float inverse_scale,
                       std::uint8_t* codes);
  /// Rows [first, first + count) of what a producer makes, `count` rows of cols floats; cols is a
  /// multiple of 16. The options have been checked.
  void (*silu_mul)(const SiluMulOptions& options, std::int64_t first, std::int64_t count,
                   float* output);
  /// Writes the rows of options.sum where there is a residual.
  void (*rms_norm)(const RmsNormOptions& options, std::int64_t first, std::int64_t count,
                   float* output);
  void (*hadamard)(const HadamardOptions& options, std::int64_t first, std::int64_t count,
                   float* output);
};

}  // namespace microscale
