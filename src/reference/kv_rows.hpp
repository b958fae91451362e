// Rows of K and V as append_kv quantizes them: Backend::reference's, and the oracle of the kernels
// that append, on a host and on a GPU.
#pragma once

#include <cstdint>
#include <span>

#include "microscale/kv_cache.hpp"

namespace microscale {

/// The orthonormal Hadamard transform of each run of `order` along a row of d values, in the order
/// of operations of formats/producers.hpp. append_kv does it to K, attention to q.
void hadamard_runs(float* row, std::int64_t d, int order);

/// Turns the pairs of a row at `position`.
void rotate_pairs(const Rope& rope, std::int64_t position, float* row);

/// A dense row in FP32 becomes the row of K at `position` of kv head `head` that is quantized.
void transform_key(const AppendKvOptions& options, std::int64_t head, std::int64_t position,
                   float* row);

/// factor * (row . mean): what the mean of K, taken out of it by append_kv, adds to a query's
/// scores.
double mean_score(const double* row, const float* mean, std::int64_t d, double factor);

/// E4M3 codes of values * inverse_scale, nearest even, saturating.
void quantize_fp8(const float* values, std::int64_t count, float inverse_scale,
                  std::uint8_t* codes);

}  // namespace microscale
