// A row of attention from what was computed over parts of its keys: FP64, in the order of the
// parts.
#pragma once

#include <cstdint>

#include "microscale/format.hpp"

namespace microscale {

/// What one part gives for a row, as AttentionTile has it: its largest score, the sum of e^(score -
/// largest), and that sum with v (d values).
struct AttentionPart {
  const double *largest, *sum, *output;
};

/// The sum over all parts and a sink (-infinity: none) is `sum` * e^largest. weights[i] is what
/// part i is multiplied by for it. A NaN in a part, or as the sink, makes the sum NaN.
struct MergedSum {
  double largest, sum;
};
MergedSum merge_sums(const AttentionPart* parts, std::int64_t count, double sink, double* weights);

/// ln(sum) + largest; -infinity where nothing was seen.
double log_sum_exp(const MergedSum& merged);

/// Elements of the row, rounded to FP32 and then to `type`: the parts' outputs by their weights,
/// over the sum; zeros where nothing was seen.
void store_merged(const AttentionPart* parts, std::int64_t count, const double* weights,
                  const MergedSum& merged, std::int64_t d, void* output, DType type,
                  std::int64_t first);

}  // namespace microscale
