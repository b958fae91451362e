#include "checkpoint/containers/containers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace microscale {
namespace {

// In this order: one that has a mark of its own comes before one that goes by types.
constexpr std::array containers{
    find_gguf_weights,        find_comfyui_weights, find_gpt_oss_weights, find_fp_quant_weights,
    find_deepseek_v4_weights, find_fp8_weights,     find_fp8_casts};

}  // namespace

ContainerScan::ContainerScan(const ModelFolder& model, bool planned)
    : model_(model), planned_(planned) {}

const ModelTensor* ContainerScan::find(std::string_view name) const {
  const ModelTensor* tensor = model_.find(name);
  return tensor && !taken_.contains(tensor) && !refused_.contains(tensor) ? tensor : nullptr;
}

void ContainerScan::add(std::unique_ptr<StoredWeight> weight) {
  for (const ModelTensor* part : weight->facts().parts) taken_.insert(part);
  weights.push_back(std::move(weight));
}

void ContainerScan::report(std::string_view rule, const ModelTensor& at, const std::string& text,
                           const std::vector<const ModelTensor*>& parts) {
  refused_.insert(parts.begin(), parts.end());
  unusable.push_back(
      make_finding(Severity::error, rule, model_.shards[at.shard].name, at.name(), text));
}

void find_stored_weights(ContainerScan& scan) {
  for (const auto find : containers) find(scan);
  std::sort(scan.weights.begin(), scan.weights.end(),
            [](const auto& a, const auto& b) { return a->name() < b->name(); });
}

std::string described(const TensorEntry& entry) {
  return fmt::format("{} [{}]", to_string(entry.type), fmt::join(entry.shape, ", "));
}

}  // namespace microscale
