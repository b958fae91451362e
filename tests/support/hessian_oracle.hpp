// The oracle of the quantizers that take a Hessian: docs/formats/accuracy.md in FP64, by a
// textbook's Cholesky factorization, row after row; and inputs to try them on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "formats/block_quantizer.hpp"
#include "microscale/hessian.hpp"
#include "support/matrices.hpp"

namespace microscale::test {

using Doubles = std::vector<std::vector<double>>;

/// H = R R^T with R upper triangular: the Cholesky factorization of H upside down.
inline Doubles upper_factor(const Doubles& h) {
  const std::size_t n = h.size();
  Doubles r(n, std::vector<double>(n));
  for (std::size_t j = n; j-- > 0;)
    for (std::size_t i = j + 1; i-- > 0;) {
      double sum = h[i][j];
      for (std::size_t k = j + 1; k < n; ++k) sum -= r[i][k] * r[j][k];
      r[i][j] = i == j ? std::sqrt(sum) : sum / r[j][j];
    }
  return r;
}

/// Shrunk and damped, of live columns, in the given order.
inline Doubles shrunk(const std::vector<float>& h, const std::vector<std::size_t>& order,
                      double shrink, double damping) {
  const std::size_t n = order.size();
  double mean = 0;
  for (std::size_t k = 0; k < n; ++k) mean += static_cast<double>(h[k * n + k]) / double(n);
  Doubles result(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      result[i][j] = i == j ? static_cast<double>(h[order[i] * n + order[i]]) + damping * mean
                            : (1 - shrink) * static_cast<double>(h[order[i] * n + order[j]]);
  return result;
}

/// Columns in the order of GPTQ.
inline std::vector<std::size_t> columns_in_order(const std::vector<float>& h, std::size_t n,
                                                 std::size_t block) {
  std::vector<double> energy(n / block);
  for (std::size_t k = 0; k < n; ++k) energy[k / block] += static_cast<double>(h[k * n + k]);
  std::vector<std::size_t> blocks(n / block), columns;
  std::iota(blocks.begin(), blocks.end(), std::size_t{0});
  std::stable_sort(blocks.begin(), blocks.end(),
                   [&](std::size_t a, std::size_t b) { return energy[a] > energy[b]; });
  for (const std::size_t b : blocks)
    for (std::size_t j = 0; j < block; ++j) columns.push_back(b * block + j);
  return columns;
}

/// The values that GPTQ gives the rows of `w`.
inline Doubles gptq_in_fp64(const Matrix& w, const std::vector<float>& h, Format format,
                            float global, double shrink, double damping) {
  const auto n = static_cast<std::size_t>(w.cols), block = std::size_t(info(format).block);
  const std::vector<std::size_t> order = columns_in_order(h, n, block);
  const Doubles r = upper_factor(shrunk(h, order, shrink, damping));
  Doubles q(static_cast<std::size_t>(w.rows), std::vector<double>(n));
  for (std::size_t row = 0; row < q.size(); ++row) {
    std::vector<double> e(n);
    const auto weight = [&](std::size_t j) { return double(w.at(long(row), long(order[j]))); };
    const auto target = [&](std::size_t j, std::size_t from, double sum) {
      for (std::size_t i = from; i < j; ++i) sum += e[i] * r[i][j] / r[j][j];
      return sum;
    };
    for (std::size_t begin = 0; begin < n; begin += block) {
      std::vector<double> start(block);
      double amax = 0, least = INFINITY, best = 0;
      for (std::size_t j = 0; j < block; ++j) {
        const std::size_t at = begin + j;
        double sum = weight(at);
        for (std::size_t i = 0; i < begin; ++i) sum += e[i] * r[i][at] / r[at][at];
        amax = std::max(amax, std::fabs(start[j] = sum));
      }
      const auto run = [&](double step) {
        double cost = 0;
        for (std::size_t j = begin; j < begin + block; ++j) {
          const double t = target(j, begin, start[j - begin]);
          const auto code = E2M1::encode(float(t / step), Rounding::nearest_even);
          const double value = double(E2M1::decode(code)) * step;
          e[j] = weight(j) - value;
          cost += r[j][j] * r[j][j] * (t - value) * (t - value);
          q[row][order[j]] = value;
        }
        return cost;
      };
      const auto attempt = [&](double step) {
        if (const double cost = run(step); cost < least) least = cost, best = step;
      };
      if (format == Format::nvfp4) {
        const int nearest = UE4M3::encode(float(amax / 6 / double(global)), Rounding::nearest_even);
        for (int s = std::max(nearest - 3, 1); s <= std::min(nearest + 6, 126); ++s)
          attempt(double(UE4M3::decode(std::uint8_t(s))) * double(global));
      } else {
        for (int s = std::ilogb(amax) - 3; s <= std::ilogb(amax) - 1; ++s)
          attempt(std::ldexp(1.0, s));
      }
      run(best);
    }
  }
  return q;
}

/// The mean of x x^T over `tokens` inputs of uneven size that depend on each other.
inline std::vector<float> correlated_hessian(std::int64_t cols, std::int64_t tokens,
                                             unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  const auto n = static_cast<std::size_t>(cols);
  std::vector<float> size(n), x(n);
  Doubles mix(8, std::vector<double>(n));
  for (auto& row : mix)
    for (double& factor : row) factor = double(normal(generator));
  for (float& s : size) s = std::exp(normal(generator));
  std::vector<double> sums(n * n);
  for (std::int64_t t = 0; t < tokens; ++t) {
    double common[8];
    for (double& c : common) c = double(normal(generator));
    for (std::size_t i = 0; i < n; ++i) {
      double value = 0.7 * double(normal(generator));
      for (std::size_t c = 0; c < 8; ++c) value += 0.35 * mix[c][i] * common[c];
      x[i] = float(value) * size[i];
    }
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) sums[i * n + j] += double(x[i]) * double(x[j]);
  }
  std::vector<float> hessian(n * n);
  for (std::size_t i = 0; i < n * n; ++i) hessian[i] = float(sums[i] / double(tokens));
  return hessian;
}

inline std::vector<float> diagonal_hessian(const std::vector<float>& diagonal) {
  const std::size_t n = diagonal.size();
  std::vector<float> hessian(n * n);
  for (std::size_t k = 0; k < n; ++k) hessian[k * n + k] = diagonal[k];
  return hessian;
}

/// tr(E H E^T) over tr(W H W^T), E the difference, in FP64.
template <class Values>
double relative_output_error(const Matrix& w, const Values& q, const std::vector<float>& h) {
  double error = 0, power = 0;
  for (std::int64_t row = 0; row < w.rows; ++row)
    for (std::int64_t i = 0; i < w.cols; ++i)
      for (std::int64_t j = 0; j < w.cols; ++j) {
        const double hij = double(h[std::size_t(i * w.cols + j)]), wi = double(w.at(row, i)),
                     wj = double(w.at(row, j));
        error += (q(row, i) - wi) * hij * (q(row, j) - wj);
        power += wi * hij * wj;
      }
  return error / power;
}

}  // namespace microscale::test
