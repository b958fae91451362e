#include "report/error_metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "microscale/error.hpp"

namespace microscale {
namespace {

struct Pair {
  std::vector<float> original, restored;
};

/// Values over many binades, their restored ones off by a few percent, some of them zero.
Pair random_pair(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Pair pair;
  for (std::size_t i = 0; i < count; ++i) {
    const float x = normal(random) * std::ldexp(1.0f, static_cast<int>(random() % 40) - 20);
    pair.original.push_back(random() % 17 == 0 ? 0.0f : x);
    pair.restored.push_back(random() % 9 == 0 ? 0.0f : x * (1 + 0.05f * normal(random)));
  }
  return pair;
}

TEST(ErrorMetrics, agree_with_a_long_double_loop) {
  for (const std::size_t count : {1u, 7u, 8u, 9u, 4095u, 4096u, 4097u, 100003u}) {
    const Pair pair = random_pair(count, static_cast<std::uint32_t>(count));
    ErrorSums sums;
    sums.add(pair.original, pair.restored, 3);
    long double squared_error = 0, squared_original = 0, squared_restored = 0, dot = 0;
    double max_error = 0;
    std::uint64_t flushed = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double x = pair.original[i], y = pair.restored[i];
      squared_error += static_cast<long double>(x - y) * (x - y);
      squared_original += static_cast<long double>(x) * x;
      squared_restored += static_cast<long double>(y) * y;
      dot += static_cast<long double>(x) * y;
      max_error = std::max(max_error, std::fabs(x - y));
      flushed += x != 0 && y == 0;
    }
    const auto near = [&](double got, long double want) {
      EXPECT_NEAR(got, static_cast<double>(want), 1e-13 * std::fabs(static_cast<double>(want)))
          << count;
    };
    near(sums.squared_error, squared_error);
    near(sums.squared_original, squared_original);
    near(sums.squared_restored, squared_restored);
    near(sums.dot, dot);
    EXPECT_EQ(sums.max_error, max_error);
    EXPECT_EQ(sums.flushed, flushed);
    EXPECT_EQ(sums.clipped, 3u);
    EXPECT_EQ(sums.elements, count);
    near(sums.relative_mse(), squared_error / squared_original);
    near(sums.sqnr_db(), 10 * std::log10(squared_original / squared_error));
    near(sums.cosine(), dot / std::sqrt(squared_original * squared_restored));
  }
}

TEST(ErrorMetrics, sum_elements_in_the_order_promised) {
  const Pair pair = random_pair(29, 5);
  double partial[8] = {};
  for (std::size_t i = 0; i < 29; ++i) {
    const double error =
        static_cast<double>(pair.original[i]) - static_cast<double>(pair.restored[i]);
    partial[i % 8] += error * error;
  }
  const double want = ((partial[0] + partial[4]) + (partial[2] + partial[6])) +
                      ((partial[1] + partial[5]) + (partial[3] + partial[7]));
  EXPECT_EQ(error_run(pair.original, pair.restored).squared_error, want);
}

TEST(ErrorMetrics, give_the_same_bits_however_cut_at_run_ends) {
  const std::size_t run = error_run_elements;
  const Pair pair = random_pair(5 * run + 123, 11);
  const std::span<const float> original = pair.original, restored = pair.restored;
  ErrorSums whole;
  whole.add(original, restored);

  ErrorSums in_two;
  in_two.add(original.first(2 * run), restored.first(2 * run));
  in_two.add(original.subspan(2 * run), restored.subspan(2 * run));
  EXPECT_EQ(in_two, whole);

  ErrorSums merged;
  for (std::size_t at = 0; at < original.size(); at += run) {
    const std::size_t count = std::min(run, original.size() - at);
    merged.merge(error_run(original.subspan(at, count), restored.subspan(at, count)));
  }
  EXPECT_EQ(merged, whole);
}

TEST(ErrorMetrics, are_defined_for_all_zero_and_for_nothing) {
  const std::vector<float> zero(100, 0.0f), one(100, 1.0f);
  ErrorSums nothing;
  EXPECT_EQ(nothing.relative_mse(), 0);
  EXPECT_EQ(nothing.clipped_share(), 0);
  EXPECT_EQ(nothing.root_mean_square_error(), 0);

  ErrorSums both;
  both.add(zero, zero);
  EXPECT_EQ(both.relative_mse(), 0);
  EXPECT_EQ(both.sqnr_db(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(both.cosine(), 1);
  EXPECT_EQ(both.flushed, 0u);

  ErrorSums from_zero;
  from_zero.add(zero, one);
  EXPECT_EQ(from_zero.relative_mse(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(from_zero.sqnr_db(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(from_zero.cosine(), 0);

  ErrorSums to_zero;
  to_zero.add(one, zero);
  EXPECT_EQ(to_zero.relative_mse(), 1);
  EXPECT_EQ(to_zero.sqnr_db(), 0);
  EXPECT_EQ(to_zero.flushed_share(), 1);
}

TEST(ErrorMetrics, show_a_nan_instead_of_hiding_it) {
  const std::vector<float> original = {1, std::nanf(""), 3}, restored = {1, 2, 3};
  ErrorSums sums;
  sums.add(original, restored);
  EXPECT_TRUE(std::isnan(sums.relative_mse()));
  EXPECT_TRUE(std::isnan(sums.cosine()));
}

TEST(ErrorMetrics, refuse_lengths_that_differ) {
  const std::vector<float> three(3), four(4);
  ErrorSums sums;
  EXPECT_THROW(sums.add(three, four), Error);
  EXPECT_THROW(error_run(four, three), Error);
}

}  // namespace
}  // namespace microscale
