// Rows of what formats/producers.hpp defines, from dense memory into FP32 rows:
// Backend::reference's, and the oracle of the kernels of the fused operations, on a host and on a
// GPU.
#pragma once

#include <cstdint>

#include "microscale/fused.hpp"

namespace microscale {

/// The sum of a segment's group sums, `groups` of at most rms_segment_groups, as
/// formats/producers.hpp orders it; overwrites them.
float sum_of_groups(float* sums, int groups);

/// What a row of `cols` elements with this sum of squares is multiplied by.
float row_multiplier(float sum, std::int64_t cols, float epsilon);

/// Rows [first, first + count) as `count` rows of cols floats at `output`. The options have been
/// checked.
void silu_mul_rows(const SiluMulOptions& options, std::int64_t first, std::int64_t count,
                   float* output);

/// As above; writes the rows of options.sum where there is a residual.
void rms_norm_rows(const RmsNormOptions& options, std::int64_t first, std::int64_t count,
                   float* output);

void hadamard_rows(const HadamardOptions& options, std::int64_t first, std::int64_t count,
                   float* output);

}  // namespace microscale
