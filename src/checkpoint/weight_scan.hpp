// What is learnt of the weights while they are read: the largest magnitude of each group of
// matrices that share a global scale, and the first element that cannot be quantized.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// All members may be called from many threads at once. What comes out does not depend on their
/// order.
class WeightScan {
 public:
  explicit WeightScan(const ModelPlan& plan) : plan_(plan), amax_(plan.groups.size()) {}

  void add_amax(std::size_t group, float amax);
  float amax(std::size_t group) const { return amax_[group]; }

  /// What keeps an element from being quantized. `huge`: its code may stand for infinity, as codes
  /// are rounded up too.
  enum class Bad : std::uint8_t { nan, infinite, huge };
  /// Such an element; of several, the first in the order of the plan counts.
  struct Place {
    std::size_t shard = 0, matrix = 0;
    std::int64_t row = 0, col = 0;
    Bad what = Bad::nan;
  };
  void add_bad(const Place& place);

  /// Whether the result is already settled by a bad element before this position.
  bool is_past_bad(std::size_t shard, std::size_t matrix, std::int64_t row, std::int64_t col) const;

  /// Success, or a failure that names tensor, file and position of the bad element.
  Status result() const;

 private:
  const ModelPlan& plan_;
  mutable std::mutex mutex_;
  std::vector<float> amax_;
  std::atomic<bool> bad_{false};
  std::optional<Place> first_;
};

}  // namespace microscale
