#include "checkpoint/weight_scan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "checkpoint/fused_experts.hpp"
#include "checkpoint/fused_groups.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

auto position(const WeightScan::Place& place) {
  return std::tie(place.shard, place.matrix, place.row, place.col);
}

// A pattern for the layers that are quantized with this one or not at all; empty: none.
std::string quantized_together(std::string_view tensor) {
  const std::string_view module = module_of(tensor);
  if (const auto experts = expert_layer_of(module)) return std::string(*experts) + ".*";
  if (fused_expert_part(tensor)) return std::string(experts_module_of(tensor)) + ".*";
  if (fused_group_of(module)) return std::string(parent_of(module)) + ".*";
  return "";
}

}  // namespace

void WeightScan::add_amax(std::size_t group, float amax) {
  std::lock_guard lock(mutex_);
  amax_[group] = std::max(amax_[group], amax);
}

void WeightScan::add_bad(const Place& place) {
  std::lock_guard lock(mutex_);
  if (!first_ || position(place) < position(*first_)) first_ = place;
  bad_.store(true);
}

bool WeightScan::is_past_bad(std::size_t shard, std::size_t matrix, std::int64_t row,
                             std::int64_t col) const {
  if (!bad_.load()) return false;
  std::lock_guard lock(mutex_);
  return std::tie(shard, matrix, row, col) > position(*first_);
}

Status WeightScan::result() const {
  std::lock_guard lock(mutex_);
  if (!first_) return success();
  const QuantizedMatrix& matrix = plan_.shards[first_->shard].matrices[first_->matrix];
  const TensorEntry& entry = *plan_.tensors[matrix.tensor].entry;
  std::int64_t rest = matrix.slice.element(first_->row, first_->col);
  std::vector<std::int64_t> index(entry.shape.size());
  for (std::size_t dimension = entry.shape.size(); dimension-- > 0;) {
    index[dimension] = rest % entry.shape[dimension];
    rest /= entry.shape[dimension];
  }
  if (matrix.kept) {
    return Failure{
        ErrorCode::bad_input,
        fmt::format("convert: tensor {} in '{}' is NaN in a block at [{}]; download the model "
                    "again, or start from the full-precision one",
                    in_quotes(entry.name), plan_.model.shards[first_->shard].file.path().string(),
                    fmt::join(index, ", "))};
  }
  const std::string together = quantized_together(entry.name);
  const char* what = first_->what == Bad::nan ? "is NaN"
                     : first_->what == Bad::infinite
                         ? "is infinite"
                         : "is 1.7e38 or more, which decodes to infinity "
                           "once it is rounded up,";
  const StoredWeight* weight = plan_.tensors[matrix.tensor].source->weight;
  const auto& merged = plan_.view.merged;
  if (std::any_of(merged.begin(), merged.end(),
                  [&](const auto& each) { return each.get() == weight; })) {
    return Failure{ErrorCode::bad_input,
                   fmt::format("quantize: tensor {} {} at [{}] once --lora has been added to it; "
                               "check the adapter and its weight",
                               in_quotes(entry.name), what, fmt::join(index, ", "))};
  }
  return Failure{
      ErrorCode::bad_input,
      fmt::format(
          "quantize: tensor {} in '{}' {} at [{}]; a block with it cannot be "
          "quantized, so repair the model or leave {} out with --ignore {}",
          in_quotes(entry.name),
          plan_.model.shards[plan_.tensors[matrix.tensor].source->shard].file.path().string(), what,
          fmt::join(index, ", "), together.empty() ? "the tensor" : "what it belongs to",
          in_quotes(together.empty() ? std::string(module_of(entry.name)) : together))};
}

}  // namespace microscale
