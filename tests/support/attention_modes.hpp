// Attention in the modes that round probabilities to codes, in FP64, as the kernels with
// block-scaled instructions have it: the reference's model, but for the maximum of a row, which is
// that of the keys up to the end of the `step` that a key is in.
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

/// `parts`: keys with which parts begin that have a largest score of their own.
inline ModeResult mode_result(const OracleRow& row, ProbabilityRule rule, Format format,
                              bool two_term, std::size_t step, double near,
                              const std::vector<std::size_t>& parts = {}) {
  const std::size_t d = row.q.size(), keys = row.k.size();
  constexpr double none = -std::numeric_limits<double>::infinity();
  const double log2_e = std::log2(std::exp(1.0));
  std::vector<double> y(keys, none), most;  // scores in powers of two; the largest at a step's end
  double top = none, top_of_part = none;
  for (std::size_t j = 0; j < keys; ++j) {
    const auto position = static_cast<std::int64_t>(j);
    if (std::find(parts.begin(), parts.end(), j) != parts.end()) top_of_part = none;
    if (j % step == 0) most.push_back(top_of_part);
    if (row.causal && position > row.position) continue;
    if (row.window > 0 && position <= row.position - row.window) continue;
    double s = 0;
    for (std::size_t i = 0; i < d; ++i) s += row.q[i] * row.k[j][i];
    s *= row.scale;
    if (row.softcap > 0) s = row.softcap * std::tanh(s / row.softcap);
    y[j] = s * log2_e;
    most.back() = top_of_part = std::max(top_of_part, y[j]);
    top = std::max(top, y[j]);
  }
  ModeResult result{.o = std::vector<double>(d),
                    .weighted = std::vector<double>(d),
                    .ties = std::vector<double>(d)};
  const double sink = row.sink * log2_e;
  if (top == none) top = sink;
  if (top == none) return result;
  std::vector<double> p(keys), rounded(keys), apart(keys);
  double sum = std::exp2(sink - top);
  for (std::size_t first = 0; first < keys; first += step) {
    const std::size_t count = std::min(step, keys - first);
    const double m = most[first / step];
    if (m == none) continue;
    std::vector<double> own(count), versions[3];
    for (std::size_t j = 0; j < count; ++j) {
      own[j] = std::exp2(y[first + j] - m);
      sum += p[first + j] = std::exp2(y[first + j] - top);
    }
    for (int version = 0; version < 3; ++version) {
      versions[version] = own;
      for (double& each : versions[version]) each *= 1 + (version - 1) * near;
      round_probabilities(rule, format, two_term, static_cast<std::int64_t>(first),
                          versions[version].data(), static_cast<std::int64_t>(count));
    }
    for (std::size_t j = 0; j < count; ++j) {
      rounded[first + j] = versions[1][j] * std::exp2(m - top);
      const double off = std::max(std::fabs(versions[0][j] - versions[1][j]),
                                  std::fabs(versions[2][j] - versions[1][j]));
      if (off > 4 * near * own[j]) apart[first + j] = off * std::exp2(m - top);
    }
  }
  result.lse = (top + std::log2(sum)) / log2_e;
  for (std::size_t j = 0; j < keys; ++j)
    for (std::size_t i = 0; y[j] != none && i < d; ++i) {
      const double v = row.v[j][i];
      result.o[i] += rounded[j] * v / sum;
      result.weighted[i] += p[j] * std::fabs(v) / sum;
      result.ties[i] += apart[j] * std::fabs(v) / sum;
    }
  return result;
}

}  // namespace microscale::test
