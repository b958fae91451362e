#include "reference/attention_merge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/dense.hpp"

namespace microscale {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

double weight_of(double score, double largest) {
  return score == minus_infinity ? 0.0 : std::exp(score - largest);
}

}  // namespace

MergedSum merge_sums(const AttentionPart* parts, std::int64_t count, double sink, double* weights) {
  double largest = std::isnan(sink) ? minus_infinity : sink;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, *parts[i].largest);
  double sum = std::isnan(sink) ? sink : weight_of(sink, largest);
  for (std::int64_t i = 0; i < count; ++i) {
    const double own = *parts[i].sum;
    // A NaN among scores of -infinity has a weight: it is the sum.
    weights[i] = own == 0 ? 0.0 : std::isnan(own) ? 1.0 : weight_of(*parts[i].largest, largest);
    sum += own * weights[i];
  }
  return {largest, sum};
}

double log_sum_exp(const MergedSum& merged) {
  return merged.sum == 0 ? minus_infinity : merged.largest + std::log(merged.sum);
}

void store_merged(const AttentionPart* parts, std::int64_t count, const double* weights,
                  const MergedSum& merged, std::int64_t d, void* output, DType type,
                  std::int64_t first) {
  for (std::int64_t e = 0; e < d; ++e) {
    double value = 0;
    for (std::int64_t i = 0; i < count; ++i)
      if (weights[i] != 0) value += parts[i].output[e] * weights[i];
    if (std::isnan(merged.sum)) value = merged.sum;
    store_dense(static_cast<float>(merged.sum == 0 ? 0.0 : value / merged.sum), output, type,
                first + e);
  }
}

}  // namespace microscale
