#include "problem.hpp"

#include <algorithm>
#include <cmath>

#include "layouts/tiled_128x4.hpp"

namespace levels {
namespace {

using namespace microscale;

/// Every code, scales from 2^-3 to 30 by a hash: no two neighbours alike.
BlockTensor operand(std::int64_t rows, std::int64_t k, std::uint32_t seed) {
  BlockTensor made(BlockShape{rows, k, Format::nvfp4, BlockAxis::cols, Layout::tiled_128x4});
  std::uint32_t state = seed;
  const auto next = [&] { return (state = state * 1664525u + 1013904223u) >> 16; };
  for (std::uint8_t& each : made.codes()) each = static_cast<std::uint8_t>(next());
  for (std::uint8_t& each : made.scales()) each = static_cast<std::uint8_t>(0x20 + next() % 64);
  return made;
}

double value_of(const BlockTensor& t, std::int64_t row, std::int64_t i) {
  constexpr double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const std::int64_t k = t.shape().cols;
  const int code = t.codes()[static_cast<std::size_t>((row * k + i) / 2)] >> (i % 2 * 4) & 15;
  const int scale = t.scales()[static_cast<std::size_t>(tiled_128x4::offset(row, i / 16, k / 16))];
  const double value = magnitudes[code & 7] * std::ldexp(8 + scale % 8, scale / 8 - 10);
  return (code & 8) != 0 ? -value : value;
}

}  // namespace

GemmProblem::GemmProblem(std::int64_t m, std::int64_t n, std::int64_t k)
    : a(operand(m, k, 1)), b(operand(n, k, 2)) {
  std::vector<double> weights;
  for (std::int64_t column = 0; column < n; ++column)
    for (std::int64_t i = 0; i < k; ++i) weights.push_back(value_of(b, column, i));
  std::vector<double> row(static_cast<std::size_t>(k));
  for (std::int64_t r = 0; r < m; ++r) {
    for (std::int64_t i = 0; i < k; ++i) row[static_cast<std::size_t>(i)] = value_of(a, r, i);
    for (std::int64_t column = 0; column < n; ++column) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double product =
            row[static_cast<std::size_t>(i)] * weights[static_cast<std::size_t>(column * k + i)];
        sum += product;
        magnitude += std::fabs(product);
      }
      exact_.push_back(sum);
      magnitude_.push_back(magnitude);
    }
  }
}

double GemmProblem::largest_error(const std::vector<float>& d) const {
  double largest = 0;
  for (std::size_t i = 0; i < exact_.size(); ++i) {
    const double off = std::fabs(d[i] - exact_[i]) / magnitude_[i];
    largest = std::isnan(off) ? INFINITY : std::max(largest, off);
  }
  return largest;
}

}  // namespace levels
