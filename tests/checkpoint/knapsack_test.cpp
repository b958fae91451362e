#include "checkpoint/knapsack.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace microscale {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

// Every choice, one after the other.
double least_cost(const std::vector<KnapsackItem>& items, std::int64_t room, std::size_t at = 0) {
  if (at == items.size()) return 0;
  double least = inf;
  for (std::size_t option = 0; option < items[at].costs.size(); ++option) {
    const std::int64_t left = room - items[at].sizes[option];
    if (left < 0 || items[at].costs[option] == inf) continue;
    least = std::min(least, items[at].costs[option] + least_cost(items, left, at + 1));
  }
  return least;
}

std::vector<KnapsackItem> random_items(int count, std::int64_t step, std::mt19937& random) {
  std::vector<KnapsackItem> items;
  for (int i = 0; i < count; ++i) {
    KnapsackItem& item = items.emplace_back();
    for (int option = 0; option < 4; ++option) {
      item.costs.push_back(option > 0 && random() % 5 == 0 ? inf : random() % 1000 / 1000.0);
      item.sizes.push_back(step * static_cast<std::int64_t>(1 + random() % 40));
    }
  }
  return items;
}

TEST(Knapsack, finds_what_trying_everything_finds) {
  std::mt19937 random(1);
  int solved = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t step = trial % 2 ? 1 : 12345;
    const auto items = random_items(1 + trial % 7, step, random);
    const std::int64_t room = step * static_cast<std::int64_t>(random() % 200);
    const auto solution = solve_knapsack(items, room);
    const double wanted = least_cost(items, room);
    ASSERT_EQ(solution.has_value(), wanted < inf);
    if (!solution) continue;
    ++solved;
    EXPECT_NEAR(solution->cost, wanted, 1e-12);
    EXPECT_LE(solution->bound, solution->cost);
    EXPECT_LE(solution->size, room);
    std::int64_t size = 0;
    for (std::size_t i = 0; i < items.size(); ++i) size += items[i].sizes[solution->chosen[i]];
    EXPECT_EQ(size, solution->size);
  }
  EXPECT_GT(solved, 100);
}

// Sizes with no common step: the table is coarse, and the solution within one step of the bound.
TEST(Knapsack, is_near_the_bound_where_sizes_are_large_and_odd) {
  std::mt19937_64 random(2);
  std::vector<KnapsackItem> items;
  double largest_step = 0;
  for (int i = 0; i < 300; ++i) {
    const auto weights = static_cast<std::int64_t>(1000000 + random() % 100000000);
    const double error = 0.01 * static_cast<double>(1 + random() % 100);
    items.push_back({{error, error / 30, 0}, {weights / 2 + 1, weights, 2 * weights + 3}});
    largest_step = std::max(largest_step, error);
  }
  const std::int64_t room = least_size(items) + (most_size(items) - least_size(items)) / 7;
  const auto solution = solve_knapsack(items, room);
  ASSERT_TRUE(solution.has_value());
  EXPECT_LE(solution->size, room);
  EXPECT_LE(solution->cost, solution->bound + largest_step);
  EXPECT_GE(solution->cost, solution->bound);
  EXPECT_GT(solution->size, room - room / 1000) << "and fills what it may";
  EXPECT_EQ(solve_knapsack(items, room)->chosen, solution->chosen);
}

TEST(Knapsack, takes_the_smaller_and_the_earlier_of_equals) {
  const std::vector<KnapsackItem> items{{{0.5, 0.5, 0.5}, {8, 4, 4}}};
  EXPECT_EQ(solve_knapsack(items, 100)->chosen, std::vector<std::size_t>{1});
}

TEST(Knapsack, says_when_nothing_fits) {
  const std::vector<KnapsackItem> items{{{1, 0}, {10, 20}}, {{inf, 0}, {0, 7}}};
  EXPECT_EQ(least_size(items), 17);
  EXPECT_EQ(most_size(items), 27);
  EXPECT_FALSE(solve_knapsack(items, 16).has_value());
  EXPECT_TRUE(solve_knapsack(items, 17).has_value());
  EXPECT_TRUE(solve_knapsack({}, 0).has_value());
}

TEST(Knapsack, curve_falls_from_the_least_size_to_the_least_cost) {
  std::mt19937 random(3);
  const auto items = random_items(30, 3, random);
  const auto curve = knapsack_curve(items);
  EXPECT_EQ(curve.front().size, least_size(items));
  EXPECT_EQ(curve.back().size, most_size(items));
  for (std::size_t i = 1; i < curve.size(); ++i) {
    EXPECT_GT(curve[i].size, curve[i - 1].size);
    EXPECT_LT(curve[i].cost, curve[i - 1].cost);
    if (i > 1) {
      const auto slope = [&](std::size_t k) {
        return (curve[k].cost - curve[k - 1].cost) /
               static_cast<double>(curve[k].size - curve[k - 1].size);
      };
      EXPECT_GE(slope(i), slope(i - 1) - 1e-12) << "each byte is worth less than the one before";
    }
    EXPECT_NEAR(solve_knapsack(items, curve[i].size)->cost, curve[i].cost, 1e-9);
  }
}

}  // namespace
}  // namespace microscale
