#include "checkpoint/split_experts.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/classifier.hpp"
#include "checkpoint/fused_experts.hpp"

namespace microscale {
namespace {

struct Fused {
  const LogicalTensor* gate_up = nullptr;
  const LogicalTensor* down = nullptr;
};

// Whether the folder holds experts of this module one by one: "<module>.<number>.".
bool holds_split(const QuantizedFolder& folder, const std::string& module) {
  const auto first = std::lower_bound(
      folder.tensors.begin(), folder.tensors.end(), module + ".0",
      [](const LogicalTensor& tensor, const std::string& name) { return tensor.name < name; });
  if (first == folder.tensors.end() || !first->name.starts_with(module + ".")) return false;
  const char digit = first->name[module.size() + 1];
  return digit >= '0' && digit <= '9';
}

// A tensor of floats that is no module by itself, with the dimensions of its part.
std::optional<ExpertPart> part_of(const LogicalTensor& tensor) {
  const bool floats =
      tensor.weight || (tensor.stored && dense_type(tensor.stored->entry->type).has_value());
  if (!floats) return std::nullopt;
  const auto part = fused_expert_part(tensor.name);
  if (!part) return std::nullopt;
  const bool bias = *part == ExpertPart::gate_up_bias || *part == ExpertPart::down_bias;
  if (tensor.shape.size() != (bias ? 2u : 3u)) return std::nullopt;
  return part;
}

bool fits(const LogicalTensor& tensor, ExpertPart part, const ExpertLayout& layout) {
  if (tensor.shape.size() == 3) return true;
  const std::int64_t width = part == ExpertPart::gate_up_bias ? 2 * layout.inner : layout.hidden;
  return tensor.shape == std::vector<std::int64_t>{layout.experts, width};
}

std::map<std::string, ExpertLayout> layouts_of(const QuantizedFolder& folder,
                                               const QuantizedFolder& other,
                                               const ModelFacts& facts, ExpertOrder order) {
  std::map<std::string, Fused> modules;
  for (const LogicalTensor& tensor : folder.tensors) {
    const auto part = part_of(tensor);
    if (!part) continue;
    Fused& fused = modules[std::string(experts_module_of(tensor.name))];
    if (*part == ExpertPart::gate_up) fused.gate_up = &tensor;
    if (*part == ExpertPart::down) fused.down = &tensor;
  }
  std::map<std::string, ExpertLayout> layouts;
  for (const auto& [module, fused] : modules) {
    if (!fused.gate_up || !fused.down || !holds_split(other, module)) continue;
    auto answer = find_expert_layout(&fused.gate_up->shape, &fused.down->shape, facts);
    if (!answer.layout) continue;
    answer.layout->interleaved = order == ExpertOrder::interleaved;
    layouts.emplace(module, *answer.layout);
  }
  return layouts;
}

void add_slices(SplitTensors& split, const LogicalTensor& tensor, ExpertPart part,
                const ExpertLayout& layout) {
  for (MatrixSlice& slice : slice_experts(tensor.name, part, layout)) {
    split.slices.push_back(std::move(slice));
    const MatrixSlice& kept = split.slices.back();
    const bool bias = tensor.shape.size() == 2;
    LogicalTensor& one = split.tensors.emplace_back();
    one.name = kept.module + (bias ? ".bias" : ".weight");
    one.shape = bias ? std::vector{kept.rows} : std::vector{kept.rows, kept.cols};
    one.stored = tensor.stored;
    one.weight = tensor.weight;
    one.slice = &kept;
  }
}

}  // namespace

SplitTensors split_like(const QuantizedFolder& folder, const QuantizedFolder& other,
                        const ModelFacts& facts, ExpertOrder order) {
  SplitTensors split;
  const auto layouts = layouts_of(folder, other, facts, order);
  for (const LogicalTensor& tensor : folder.tensors) {
    const auto part = part_of(tensor);
    const auto layout =
        part ? layouts.find(std::string(experts_module_of(tensor.name))) : layouts.end();
    if (layout == layouts.end() || !fits(tensor, *part, layout->second)) {
      split.tensors.push_back(tensor);
    } else {
      add_slices(split, tensor, *part, layout->second);
    }
  }
  std::sort(split.tensors.begin(), split.tensors.end(),
            [](const LogicalTensor& a, const LogicalTensor& b) { return a.name < b.name; });
  return split;
}

}  // namespace microscale
