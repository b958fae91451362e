// Attention in the modes that round probabilities to codes, in FP64, as the kernels with
// block-scaled instructions have it: the reference's model but for the maximum, instead of which
// the integer above it counts (in powers of two).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/attention_numerics.hpp"
#include "support/attention.hpp"

namespace microscale::test {

struct ModeResult {
  std::vector<double> o;
  double lse = -std::numeric_limits<double>::infinity();
  std::vector<double> weighted;  // sum of p |v|
  /// What codes may make of o whose values lie within `near` of two of them.
  std::vector<double> ties;
};

inline ModeResult mode_result(const OracleRow& row, ProbabilityRule rule, Format format,
                              bool two_term, double near) {
  const std::size_t d = row.q.size(), keys = row.k.size();
  constexpr double none = -std::numeric_limits<double>::infinity();
  const double log2_e = std::log2(std::exp(1.0));
  std::vector<double> y(keys, none);
  double most = none;
  for (std::size_t j = 0; j < keys; ++j) {
    const auto position = static_cast<std::int64_t>(j);
    if (row.causal && position > row.position) continue;
    if (row.window > 0 && position <= row.position - row.window) continue;
    double s = 0;
    for (std::size_t i = 0; i < d; ++i) s += row.q[i] * row.k[j][i];
    s *= row.scale;
    if (row.softcap > 0) s = row.softcap * std::tanh(s / row.softcap);
    y[j] = s * log2_e;
    most = std::max(most, y[j]);
  }
  ModeResult result{.o = std::vector<double>(d),
                    .weighted = std::vector<double>(d),
                    .ties = std::vector<double>(d)};
  const double sink = row.sink * log2_e, top = most == none ? sink : std::ceil(most);
  if (top == none) return result;
  std::vector<double> p(keys), low, high;
  double sum = std::exp2(sink - top);
  for (std::size_t j = 0; j < keys; ++j) sum += p[j] = std::exp2(y[j] - top);
  result.lse = (top + std::log2(sum)) / log2_e;
  low = high = p;
  for (std::size_t j = 0; j < keys; ++j) low[j] *= 1 - near, high[j] *= 1 + near;
  std::vector<double> rounded = p;
  for (std::vector<double>* each : {&rounded, &low, &high})
    round_probabilities(rule, format, two_term, 0, each->data(), static_cast<std::int64_t>(keys));
  for (std::size_t j = 0; j < keys; ++j) {
    const double apart = std::max(std::fabs(high[j] - rounded[j]), std::fabs(low[j] - rounded[j]));
    for (std::size_t i = 0; i < d; ++i) {
      const double v = row.v[j][i];
      if (y[j] == none) continue;
      result.o[i] += rounded[j] * v / sum;
      result.weighted[i] += p[j] * std::fabs(v) / sum;
      if (apart > 4 * near * p[j]) result.ties[i] += apart * std::fabs(v) / sum;
    }
  }
  return result;
}

}  // namespace microscale::test
