// One of several options for each item, so that the sizes fit and the costs are least: the
// multiple-choice knapsack.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace microscale {

/// What an item may be: sizes are not negative; an infinite cost is an option that it has not, of
/// which it has at least one.
struct KnapsackItem {
  std::vector<double> costs;
  std::vector<std::int64_t> sizes;
};

struct KnapsackSolution {
  std::vector<std::size_t> chosen;  // by item
  std::int64_t size = 0;
  double cost = 0;
  double bound = 0;  // no choice that fits costs less
};

/// Deterministic. Exact where the capacity above the least sizes is at most 65,536 times their
/// greatest common step; else sizes are rounded up to such parts of it, filled up afterwards, and
/// held against the solution by ratios, so it costs no more than `bound` and one step of one item.
/// Nothing where even the least sizes do not fit.
std::optional<KnapsackSolution> solve_knapsack(const std::vector<KnapsackItem>& items,
                                               std::int64_t capacity);

/// The least of all sizes, and that of the options that cost least.
std::int64_t least_size(const std::vector<KnapsackItem>& items);
std::int64_t most_size(const std::vector<KnapsackItem>& items);

struct KnapsackPoint {
  std::int64_t size = 0;
  double cost = 0;
  bool operator==(const KnapsackPoint&) const = default;
};

/// Sizes and costs of the solutions by ratios, from the least size to the least cost; sizes go up,
/// costs down.
std::vector<KnapsackPoint> knapsack_curve(const std::vector<KnapsackItem>& items);

}  // namespace microscale
