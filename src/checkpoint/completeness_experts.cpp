#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "checkpoint/completeness_parts.hpp"
#include "checkpoint/fused_experts.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

// What codes of experts are called in containers that keep them in one tensor, other than the
// weight itself. Scales alone are no part.
constexpr std::array<std::string_view, 2> coded{"_blocks", "_packed"};

constexpr std::array<std::string_view, 4> names{"gate_up_proj", "down_proj", "gate_up_proj_bias",
                                                "down_proj_bias"};

std::string_view name_of(ExpertPart part) { return names[static_cast<std::size_t>(part)]; }

struct Experts {
  std::map<ExpertPart, std::int64_t> counts;  // experts of each part, as stored
};

bool is_bias(ExpertPart part) {
  return part == ExpertPart::gate_up_bias || part == ExpertPart::down_bias;
}

ExpertPart partner_of(ExpertPart part) {
  switch (part) {
    case ExpertPart::gate_up:
      return ExpertPart::down;
    case ExpertPart::down:
      return ExpertPart::gate_up;
    case ExpertPart::gate_up_bias:
      return ExpertPart::down_bias;
    case ExpertPart::down_bias:
      break;
  }
  return ExpertPart::gate_up_bias;
}

// By the module that holds them.
std::map<std::string, Experts> experts_of(const ModelFolder& model) {
  std::map<std::string, Experts> all;
  for (const ModelTensor& tensor : model.tensors) {
    const auto& shape = tensor.entry->shape;
    if (model.shards[tensor.shard].side || shape.size() < 2) continue;
    std::string_view name = tensor.name();
    for (const std::string_view ending : coded) {
      if (name.ends_with(ending)) name.remove_suffix(ending.size());
    }
    const auto part = fused_expert_part(name);
    if (!part || (!is_bias(*part) && shape.size() < 3)) continue;
    all[std::string(experts_module_of(name))].counts[*part] = shape[0];
  }
  return all;
}

// "model.layers.3.mlp.experts" -> "model.layers mlp.experts".
std::string kind_of(const std::string& module) {
  const auto layer = repeated_layer_of(module);
  return layer ? fmt::format("{} {}", layer->stack, layer->within) : module;
}

}  // namespace

void find_lost_experts(const ModelFolder& model, const ModelFacts& facts, std::vector<Gap>& gaps) {
  const auto all = experts_of(model);
  std::map<std::string, std::set<ExpertPart>> elsewhere;
  for (const auto& [module, experts] : all) {
    for (const auto& [part, count] : experts.counts) elsewhere[kind_of(module)].insert(part);
  }
  for (const auto& [module, experts] : all) {
    std::set<ExpertPart> wanted = elsewhere.at(kind_of(module));
    std::int64_t most = facts.experts.value_or(0);
    for (const auto& [part, count] : experts.counts) {
      wanted.insert(partner_of(part));
      most = std::max(most, count);
    }
    for (const ExpertPart part : wanted) {
      const std::string name = fmt::format("{}.{}", module, name_of(part));
      const auto found = experts.counts.find(part);
      if (found == experts.counts.end()) {
        gaps.push_back(
            {"partner-missing", name,
             fmt::format(
                 "{} is missing, to which {} belongs", in_quotes(name),
                 in_quotes(fmt::format("{}.{}", module, name_of(experts.counts.begin()->first))))});
      } else if (found->second < most) {
        gaps.push_back(
            {"experts-missing", name,
             fmt::format("{} has {} experts of {}", in_quotes(name), found->second, most)});
      }
    }
  }
}

}  // namespace microscale
