// The sums of error_metrics.hpp, in an order that no compiler flag changes.
#include "report/error_metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "microscale/error.hpp"

namespace microscale {
namespace {

constexpr std::size_t lanes = 8;
using Lanes = std::array<double, lanes>;

double combine(const Lanes& a) {
  return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

ErrorSums error_run(std::span<const float> original, std::span<const float> restored) {
  if (original.size() != restored.size()) {
    throw Error(ErrorCode::invalid_argument,
                "error_run: original and restored must have the same number of elements");
  }
  Lanes squared_error{}, squared_original{}, squared_restored{}, dot{}, max_error{};
  std::array<std::uint64_t, lanes> flushed{};
  const auto take = [&](std::size_t lane, float original_value, float restored_value) {
    const double x = original_value;
    const double y = restored_value;
    const double error = x - y;
    squared_error[lane] += error * error;
    squared_original[lane] += x * x;
    squared_restored[lane] += y * y;
    dot[lane] += x * y;
    const double size = std::fabs(error);
    max_error[lane] = size > max_error[lane] ? size : max_error[lane];
    flushed[lane] += static_cast<std::uint64_t>((x != 0) & (y == 0));
  };
  const std::size_t count = original.size();
  const float* a = original.data();
  const float* b = restored.data();
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) take(lane, a[i + lane], b[i + lane]);
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) take(lane, a[i], b[i]);

  ErrorSums sums;
  sums.squared_error = combine(squared_error);
  sums.squared_original = combine(squared_original);
  sums.squared_restored = combine(squared_restored);
  sums.dot = combine(dot);
  sums.max_error = *std::max_element(max_error.begin(), max_error.end());
  sums.elements = count;
  for (const std::uint64_t n : flushed) sums.flushed += n;
  return sums;
}

void ErrorSums::merge(const ErrorSums& next) {
  squared_error += next.squared_error;
  squared_original += next.squared_original;
  squared_restored += next.squared_restored;
  dot += next.dot;
  max_error = std::max(max_error, next.max_error);
  elements += next.elements;
  clipped += next.clipped;
  flushed += next.flushed;
}

void ErrorSums::add(std::span<const float> original, std::span<const float> restored,
                    std::uint64_t clipped_elements) {
  if (original.size() != restored.size()) {
    throw Error(ErrorCode::invalid_argument,
                "ErrorSums::add: original and restored must have the same number of elements");
  }
  constexpr auto run = static_cast<std::size_t>(error_run_elements);
  for (std::size_t at = 0; at < original.size(); at += run) {
    const std::size_t count = std::min(run, original.size() - at);
    merge(error_run(original.subspan(at, count), restored.subspan(at, count)));
  }
  clipped += clipped_elements;
}

void WeightedSums::merge(const WeightedSums& next) {
  error += next.error;
  original += next.original;
}

double WeightedSums::share() const {
  if (error == 0) return 0;
  return original > 0 ? error / original : 1;
}

double ErrorSums::relative_mse() const {
  if (squared_error == 0) return 0;
  return squared_error / squared_original;
}

double ErrorSums::sqnr_db() const {
  if (squared_error == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(squared_original / squared_error);
}

double ErrorSums::cosine() const {
  if (squared_original == 0 && squared_restored == 0) return 1;
  if (squared_original == 0 || squared_restored == 0) return 0;
  // Rounding can carry the quotient past 1 by an ulp or two.
  const double cosine = dot / (std::sqrt(squared_original) * std::sqrt(squared_restored));
  return std::isnan(cosine) ? cosine : std::clamp(cosine, -1.0, 1.0);
}

double ErrorSums::root_mean_square_error() const {
  return elements == 0 ? 0 : std::sqrt(squared_error / static_cast<double>(elements));
}

double ErrorSums::clipped_share() const { return share(clipped, elements); }

double ErrorSums::flushed_share() const { return share(flushed, elements); }

}  // namespace microscale
