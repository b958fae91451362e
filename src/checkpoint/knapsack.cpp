#include "checkpoint/knapsack.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace microscale {
namespace {

constexpr std::int64_t most_cells = 65536;                  // of the capacity
constexpr std::int64_t most_table = std::int64_t{1} << 25;  // cells of all items

using Options = std::vector<std::size_t>;

// Options that no other one beats in both size and cost, by size.
Options undominated(const KnapsackItem& item) {
  Options order;
  for (std::size_t i = 0; i < item.costs.size(); ++i)
    if (std::isfinite(item.costs[i])) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (item.sizes[a] != item.sizes[b]) return item.sizes[a] < item.sizes[b];
    return item.costs[a] < item.costs[b];
  });
  Options kept;
  for (const std::size_t option : order)
    if (kept.empty() || item.costs[option] < item.costs[kept.back()]) kept.push_back(option);
  return kept;
}

double saved_per_byte(const KnapsackItem& item, std::size_t from, std::size_t to) {
  return (item.costs[from] - item.costs[to]) /
         static_cast<double>(item.sizes[to] - item.sizes[from]);
}

// Of these the ones on the lower convex hull: each next byte saves less than the one before.
Options hull_of(const KnapsackItem& item) {
  Options hull;
  for (const std::size_t option : undominated(item)) {
    while (hull.size() > 1 && saved_per_byte(item, hull[hull.size() - 2], hull.back()) <=
                                  saved_per_byte(item, hull.back(), option)) {
      hull.pop_back();
    }
    hull.push_back(option);
  }
  return hull;
}

struct Step {
  std::size_t item = 0, to = 0;
  std::int64_t size = 0;
  double cost = 0;  // below 0
  double ratio = 0;
};

// From the least sizes on, the steps that save most a byte first.
std::vector<Step> steps_of(const std::vector<KnapsackItem>& items) {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Options hull = hull_of(items[i]);
    for (std::size_t k = 1; k < hull.size(); ++k) {
      const std::size_t from = hull[k - 1], to = hull[k];
      steps.push_back({i, to, items[i].sizes[to] - items[i].sizes[from],
                       items[i].costs[to] - items[i].costs[from],
                       saved_per_byte(items[i], from, to)});
    }
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.ratio > b.ratio; });
  return steps;
}

class Choice {
 public:
  Choice(const std::vector<KnapsackItem>& items, std::int64_t capacity)
      : items_(items), capacity_(capacity) {
    for (const KnapsackItem& item : items_) {
      chosen_.push_back(undominated(item).front());
      size_ += item.sizes[chosen_.back()];
    }
  }

  bool fits() const { return size_ <= capacity_; }
  std::int64_t room() const { return capacity_ - size_; }
  std::size_t of(std::size_t item) const { return chosen_[item]; }

  bool take(std::size_t item, std::size_t option) {
    const std::int64_t more = items_[item].sizes[option] - items_[item].sizes[chosen_[item]];
    if (more > room()) return false;
    size_ += more;
    chosen_[item] = option;
    return true;
  }

  // What is left of the room: whatever saves most a byte and still fits, until nothing does.
  void fill() {
    for (;;) {
      std::size_t best = items_.size(), to = 0;
      double ratio = 0;
      for (std::size_t i = 0; i < items_.size(); ++i) {
        const KnapsackItem& item = items_[i];
        for (std::size_t option = 0; option < item.costs.size(); ++option) {
          if (!(item.costs[option] < item.costs[chosen_[i]])) continue;
          const std::int64_t more = item.sizes[option] - item.sizes[chosen_[i]];
          if (more > room()) continue;
          const double saved = more > 0 ? saved_per_byte(item, chosen_[i], option)
                                        : std::numeric_limits<double>::infinity();
          if (saved > ratio) best = i, to = option, ratio = saved;
        }
      }
      if (best == items_.size()) return;
      take(best, to);
    }
  }

  KnapsackSolution solution(double bound) const {
    KnapsackSolution solution{chosen_, size_, 0, bound};
    for (std::size_t i = 0; i < items_.size(); ++i) solution.cost += items_[i].costs[chosen_[i]];
    return solution;
  }

 private:
  const std::vector<KnapsackItem>& items_;
  std::int64_t capacity_, size_ = 0;
  std::vector<std::size_t> chosen_;
};

// By ratios; `bound`: the cost where the last step may be taken in part.
Choice by_ratios(const std::vector<KnapsackItem>& items, std::int64_t capacity, double& bound) {
  Choice choice(items, capacity);
  bound = choice.solution(0).cost;
  bool within = true;
  for (const Step& step : steps_of(items)) {
    if (within && step.size <= choice.room()) {
      choice.take(step.item, step.to);
      bound += step.cost;
    } else if (within) {
      bound += step.cost * static_cast<double>(choice.room()) / static_cast<double>(step.size);
      within = false;
    }
  }
  choice.fill();
  return choice;
}

// By dynamic programming over the capacity above the least sizes.
Choice by_table(const std::vector<KnapsackItem>& items, std::int64_t capacity) {
  Choice choice(items, capacity);
  std::vector<Options> options;
  std::int64_t common = 0;
  for (const KnapsackItem& item : items) {
    options.push_back(undominated(item));
    const std::int64_t least = item.sizes[options.back().front()];
    for (const std::size_t option : options.back())
      common = std::gcd(common, item.sizes[option] - least);
  }
  if (common == 0) return choice;
  const auto count = static_cast<std::int64_t>(items.size());
  const std::int64_t cells_wanted = std::clamp(most_table / count, std::int64_t{1}, most_cells);
  const std::int64_t step = std::max(common, (choice.room() + cells_wanted - 1) / cells_wanted);
  const auto cells = static_cast<std::size_t>(choice.room() / step);
  std::vector<double> least(cells + 1, 0.0), next(cells + 1);
  std::vector<std::uint8_t> taken(items.size() * (cells + 1));  // index into options
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::uint8_t* const row = taken.data() + i * (cells + 1);
    std::fill(next.begin(), next.end(), std::numeric_limits<double>::infinity());
    const std::int64_t smallest = items[i].sizes[options[i].front()];
    for (std::size_t k = 0; k < options[i].size(); ++k) {
      const std::int64_t more = items[i].sizes[options[i][k]] - smallest;
      const auto parts = static_cast<std::size_t>((more + step - 1) / step);
      const double cost = items[i].costs[options[i][k]];
      for (std::size_t cell = parts; cell <= cells; ++cell) {
        const double total = least[cell - parts] + cost;
        if (total < next[cell]) next[cell] = total, row[cell] = static_cast<std::uint8_t>(k);
      }
    }
    least.swap(next);
  }
  std::size_t cell = cells;
  for (std::size_t i = items.size(); i-- > 0;) {
    const std::size_t option = options[i][taken[i * (cells + 1) + cell]];
    const std::int64_t more = items[i].sizes[option] - items[i].sizes[options[i].front()];
    cell -= static_cast<std::size_t>((more + step - 1) / step);
    choice.take(i, option);
  }
  choice.fill();
  return choice;
}

}  // namespace

std::optional<KnapsackSolution> solve_knapsack(const std::vector<KnapsackItem>& items,
                                               std::int64_t capacity) {
  if (!Choice(items, capacity).fits()) return std::nullopt;
  double bound = 0;
  KnapsackSolution ratios = by_ratios(items, capacity, bound).solution(0);
  KnapsackSolution table = by_table(items, capacity).solution(0);
  const bool better =
      table.cost < ratios.cost || (table.cost == ratios.cost && table.size < ratios.size);
  KnapsackSolution& best = better ? table : ratios;
  best.bound = std::min(bound, best.cost);
  return best;
}

std::int64_t least_size(const std::vector<KnapsackItem>& items) {
  std::int64_t size = 0;
  for (const KnapsackItem& item : items) size += item.sizes[undominated(item).front()];
  return size;
}

std::int64_t most_size(const std::vector<KnapsackItem>& items) {
  std::int64_t size = 0;
  for (const KnapsackItem& item : items) size += item.sizes[undominated(item).back()];
  return size;
}

std::vector<KnapsackPoint> knapsack_curve(const std::vector<KnapsackItem>& items) {
  const Choice least(items, std::numeric_limits<std::int64_t>::max());
  const KnapsackSolution start = least.solution(0);
  std::vector<KnapsackPoint> points{{start.size, start.cost}};
  for (const Step& step : steps_of(items))
    points.push_back({points.back().size + step.size, points.back().cost + step.cost});
  return points;
}

}  // namespace microscale
