#include "reference/attention_merge.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "reference/dense.hpp"

namespace microscale {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

double weight_of(double score, double largest) {
  return score == minus_infinity ? 0.0 : std::exp(score - largest);
}

template <DType Type>
void store_scaled(const double* values, std::int64_t count, double factor, void* output,
                  std::int64_t first) {
  for (std::int64_t e = 0; e < count; ++e)
    store_dense(static_cast<float>(values[e] * factor), output, Type, first + e);
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
  double values[256];
  for (std::int64_t from = 0; from < d; from += std::ssize(values)) {
    const std::int64_t width = std::min<std::int64_t>(d - from, std::ssize(values));
    std::fill(values, values + width, 0.0);
    for (std::int64_t i = 0; i < count; ++i)
      if (weights[i] != 0)
        for (std::int64_t e = 0; e < width; ++e)
          values[e] += parts[i].output[from + e] * weights[i];
    const double factor = merged.sum == 0 ? 0.0 : 1.0 / merged.sum;
    const auto store = type == DType::bf16  ? store_scaled<DType::bf16>
                       : type == DType::f16 ? store_scaled<DType::f16>
                                            : store_scaled<DType::f32>;
    store(values, width, factor, output, first + from);
  }
}

}  // namespace microscale
