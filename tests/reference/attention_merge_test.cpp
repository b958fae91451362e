#include "reference/attention_merge.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace microscale {
namespace {

constexpr double inf = INFINITY;

struct Parts {
  std::vector<double> largest, sum, output;  // one value of v
  std::vector<double> weights;
  std::vector<AttentionPart> views;
  Parts(std::vector<double> m, std::vector<double> l, std::vector<double> o)
      : largest(std::move(m)), sum(std::move(l)), output(std::move(o)), weights(sum.size()) {
    for (std::size_t i = 0; i < sum.size(); ++i)
      views.push_back({&largest[i], &sum[i], &output[i]});
  }
  MergedSum merge(double sink = -inf) {
    return merge_sums(views.data(), static_cast<std::int64_t>(views.size()), sink, weights.data());
  }
  float value(const MergedSum& merged) {
    float out = 99;
    store_merged(views.data(), static_cast<std::int64_t>(views.size()), weights.data(), merged, 1,
                 &out, DType::f32, 0);
    return out;
  }
};

TEST(AttentionMerge, parts_are_one_softmax) {
  // Scores 1, 3 with v 10, 20, and 2 with v 40.
  Parts parts({3, 2}, {std::exp(-2) + 1, 1}, {10 * std::exp(-2) + 20, 40});
  const MergedSum merged = parts.merge();
  const double sum = std::exp(1) + std::exp(3) + std::exp(2);
  EXPECT_NEAR(log_sum_exp(merged), std::log(sum), 1e-14);
  EXPECT_NEAR(parts.value(merged), (10 * std::exp(1) + 20 * std::exp(3) + 40 * std::exp(2)) / sum,
              1e-5);
  const MergedSum sunk = parts.merge(5);
  EXPECT_NEAR(log_sum_exp(sunk), std::log(sum + std::exp(5)), 1e-14);
  EXPECT_NEAR(parts.value(sunk),
              (10 * std::exp(1) + 20 * std::exp(3) + 40 * std::exp(2)) / (sum + std::exp(5)), 1e-5);
}

TEST(AttentionMerge, empty_parts_weigh_nothing) {
  Parts parts({-inf, 2, -inf}, {0, 1, 0}, {0, 7, 0});
  EXPECT_EQ(parts.value(parts.merge()), 7);
  EXPECT_EQ(log_sum_exp(parts.merge()), 2);
  Parts nothing({-inf, -inf}, {0, 0}, {0, 0});
  EXPECT_EQ(nothing.value(nothing.merge()), 0);
  EXPECT_EQ(log_sum_exp(nothing.merge()), -inf);
  EXPECT_EQ(nothing.value(nothing.merge(1.5)), 0);
  EXPECT_EQ(log_sum_exp(nothing.merge(1.5)), 1.5);
}

TEST(AttentionMerge, a_nan_makes_the_row_nan) {
  for (Parts parts : {Parts({2, 3}, {1, NAN}, {5, NAN}), Parts({2, -inf}, {1, NAN}, {5, NAN})}) {
    parts.views = {{&parts.largest[0], &parts.sum[0], &parts.output[0]},
                   {&parts.largest[1], &parts.sum[1], &parts.output[1]}};
    const MergedSum merged = parts.merge();
    EXPECT_TRUE(std::isnan(merged.sum) && std::isnan(parts.value(merged)));
    EXPECT_TRUE(std::isnan(log_sum_exp(merged)));
  }
  Parts fine({2}, {1}, {5});
  EXPECT_TRUE(std::isnan(fine.value(fine.merge(NAN))));
}

}  // namespace
}  // namespace microscale
