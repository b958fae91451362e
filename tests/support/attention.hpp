// Attention written out once more, straight from the formulas, in FP64: what results must be, and
// how far a backend may be off (docs/attention.md).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "microscale/attention.hpp"
#include "support/matrices.hpp"
#include "support/present.hpp"
#include "support/roundings.hpp"

namespace microscale::test {

/// [batch, tokens, heads, d] in any dense type, packed.
struct Heads {
  DType dtype = DType::f32;
  std::int64_t batch = 1, tokens = 0, heads = 0, d = 0;
  std::vector<std::uint8_t> bytes;

  Heads(DType type, std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t width)
      : dtype(type),
        batch(b),
        tokens(t),
        heads(h),
        d(width),
        bytes(static_cast<std::size_t>(b * t * h * width * size_of(type))) {}
  std::int64_t index(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t i) const {
    return ((b * tokens + t) * heads + h) * d + i;
  }
  float at(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t i) const {
    return load_dense(bytes.data(), dtype, index(b, t, h, i));
  }
  void set(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t i, float value) {
    store_dense(value, bytes.data(), dtype, index(b, t, h, i));
  }
  HeadsView view() const { return {bytes.data(), dtype, batch, tokens, heads, d}; }
  MutableHeadsView mutable_view() { return {bytes.data(), dtype, batch, tokens, heads, d}; }
  TensorView rows() const { return {bytes.data(), dtype, batch * tokens * heads, d, d}; }
};

inline Heads random_heads(DType type, std::int64_t batch, std::int64_t tokens, std::int64_t heads,
                          std::int64_t d, unsigned seed, float sigma = 1.0f) {
  Heads h(type, batch, tokens, heads, d);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, sigma);
  for (std::int64_t i = 0; i < batch * tokens * heads * d; ++i)
    store_dense(normal(generator), h.bytes.data(), type, i);
  return h;
}

/// One query against the keys of its sequence: rows of exact numbers.
struct OracleRow {
  std::vector<double> q;
  std::vector<std::vector<double>> k, v;  // of its kv head, every position
  std::int64_t position = 0;              // of the query
  double scale = 1, softcap = 0, sink = -std::numeric_limits<double>::infinity();
  bool causal = false;
  std::int64_t window = 0;
};

struct OracleResult {
  std::vector<double> o;
  double lse = -std::numeric_limits<double>::infinity();
  std::vector<double> weighted;  // sum of p |v|
  double a = 0, s = 0, e = 0;    // largest A_j and |s_j| seen, sum of p (m - s)
  double a_q = 0;                // largest A_j with every |q_i| the row's largest
  // Of each 32 elements, the sum over 32 keys at a time of 32 times their largest p * 6 * scale,
  // a scale being at most a third of the largest |v| of its block.
  std::vector<double> weighted_blocks;
};

inline OracleResult oracle(const OracleRow& row) {
  const std::size_t d = row.q.size();
  OracleResult result{.o = std::vector<double>(d),
                      .weighted = std::vector<double>(d),
                      .weighted_blocks = std::vector<double>((d + 31) / 32)};
  double largest_q = 0;
  for (const double q : row.q) largest_q = std::max(largest_q, std::fabs(q));
  std::vector<double> scores;
  std::vector<std::size_t> seen;
  for (std::size_t j = 0; j < row.k.size(); ++j) {
    const auto position = static_cast<std::int64_t>(j);
    if (row.causal && position > row.position) continue;
    if (row.window > 0 && position <= row.position - row.window) continue;
    double dot = 0, magnitude = 0, keys = 0;
    for (std::size_t i = 0; i < d; ++i) {
      dot += row.q[i] * row.k[j][i];
      magnitude += std::fabs(row.q[i] * row.k[j][i]);
      keys += std::fabs(row.k[j][i]);
    }
    result.a_q = std::max(result.a_q, std::fabs(row.scale) * largest_q * keys);
    double s = row.scale * dot;
    result.a = std::max(result.a, std::fabs(row.scale) * magnitude);
    if (row.softcap > 0) s = row.softcap * std::tanh(s / row.softcap);
    result.s = std::max(result.s, std::fabs(s));
    scores.push_back(s);
    seen.push_back(j);
  }
  double m = row.sink, sum = 0;
  for (const double s : scores) m = std::max(m, s);
  if (m == -std::numeric_limits<double>::infinity()) return result;
  for (const double s : scores) sum += std::exp(s - m);
  sum += std::exp(row.sink - m);
  result.lse = m + std::log(sum);
  std::vector<double> largest(result.weighted_blocks.size());
  for (std::size_t n = 0; n < seen.size(); ++n) {
    const double p = std::exp(scores[n] - m) / sum;
    const std::vector<double>& v = row.v[seen[n]];
    for (std::size_t i = 0; i < d; ++i)
      largest[i / 32] = std::max(largest[i / 32], p * 2 * std::fabs(v[i]));
    if (n + 1 == seen.size() || seen[n + 1] / 32 != seen[n] / 32)
      for (std::size_t b = 0; b < largest.size(); ++b)
        result.weighted_blocks[b] += 32 * std::exchange(largest[b], 0.0);
    if (p > 0) result.e += p * (m - scores[n]);
    for (std::size_t i = 0; i < d; ++i) {
      result.o[i] += p * row.v[seen[n]][i];
      result.weighted[i] += p * std::fabs(row.v[seen[n]][i]);
    }
  }
  return result;
}

/// What docs/attention.md allows for element i and for the log-sum-exp.
struct AttentionBound {
  double score = 0, common = 0, weight = 0;
  AttentionBound(const OracleResult& r, std::int64_t keys, std::int64_t d, Backend backend) {
    const AttentionTolerance n = attention_roundings(backend, keys, d);
    constexpr double u = 0x1p-24;
    score =
        u * (static_cast<double>(n.score) * r.a + static_cast<double>(n.query) * r.a_q + 4 * r.s);
    weight = static_cast<double>(n.weight) * u;
    common = static_cast<double>(n.output + 16) * u + 8 * u * r.e;
    if (backend == Backend::reference) score = common = 1e-12;
  }
  double output(const OracleResult& r, std::size_t i, DType type) const {
    const double unit = type == DType::f32 ? 0x1p-24 : type == DType::f16 ? 0x1p-11 : 0x1p-8;
    return 1.02 * ((2 * score + common) * r.weighted[i] + weight * r.weighted_blocks[i / 32] +
                   unit * std::fabs(r.o[i])) +
           0x1p-25;
  }
  double lse(const OracleResult& r) const {
    return 1.02 * (score + common + 0x1p-24 * std::fabs(r.lse)) + 1e-12;
  }
};

/// The rows of K or V of a head as exact numbers.
inline std::vector<std::vector<double>> head_rows(const Heads& h, std::int64_t b, std::int64_t head,
                                                  std::int64_t first, std::int64_t count,
                                                  double factor = 1) {
  std::vector<std::vector<double>> rows;
  for (std::int64_t t = first; t < first + count; ++t) {
    std::vector<double> row;
    for (std::int64_t i = 0; i < h.d; ++i) row.push_back(factor * h.at(b, t, head, i));
    rows.push_back(row);
  }
  return rows;
}

/// Compares token t of batch b, head h of an output with the oracle.
inline void expect_row(const OracleResult& want, const Heads& got, std::int64_t b, std::int64_t t,
                       std::int64_t h, const AttentionBound& bound, const std::string& where) {
  for (std::int64_t i = 0; i < got.d; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double error = std::fabs(got.at(b, t, h, i) - want.o[at]);
    if (error <= bound.output(want, at, got.dtype)) continue;
    ADD_FAILURE() << where << ": batch " << b << " token " << t << " head " << h << " element " << i
                  << " is " << got.at(b, t, h, i) << ", wanted " << want.o[at] << " within "
                  << bound.output(want, at, got.dtype);
    return;
  }
}

}  // namespace microscale::test
