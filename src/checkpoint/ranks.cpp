#include "checkpoint/ranks.hpp"

#include <algorithm>
#include <numeric>

namespace microscale {
namespace {

class OneRank : public Ranks {
 public:
  int rank() const override { return 0; }
  int count() const override { return 1; }
  std::string from_first(const std::string& text) override { return text; }
  void wait_for_all() override {}
};

}  // namespace

Ranks& one_rank() {
  static OneRank alone;
  return alone;
}

std::vector<int> share_out(const ModelPlan& plan, const std::vector<bool>& done, int count) {
  std::vector<std::uint64_t> bytes(plan.shards.size(), 0);
  for (const TensorTreatment& tensor : plan.tensors) bytes[tensor.shard] += tensor.entry->bytes();
  std::vector<std::size_t> order(plan.shards.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  std::vector<int> owner(plan.shards.size(), -1);
  std::vector<std::uint64_t> load(static_cast<std::size_t>(count), 0);
  for (const std::size_t shard : order) {
    if (done[shard]) continue;
    const auto least = std::min_element(load.begin(), load.end());
    *least += bytes[shard];
    owner[shard] = static_cast<int>(least - load.begin());
  }
  return owner;
}

}  // namespace microscale
