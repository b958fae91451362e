#include "checkpoint/treatments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "checkpoint/fused_groups.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

using Treatments = std::vector<TensorTreatment>;
using Members = std::vector<TensorTreatment*>;

bool is_kept(const TensorTreatment* member) {
  return member->decision.treatment == Treatment::copy;
}

// "'a' (ignored by 'x'), 'b'".
std::string list_members(const Members& members, bool kept) {
  std::string text;
  for (const TensorTreatment* member : members) {
    if (is_kept(member) != kept) continue;
    text += (text.empty() ? "" : ", ") + in_quotes(module_of(member->entry->name));
    if (kept) text += " (" + member->decision.reason + ")";
  }
  return text;
}

// Members that are quantized together or not at all. What nature decides for one holds for all.
Status agree(const Members& members, const std::string& what) {
  const bool kept = std::any_of(members.begin(), members.end(), is_kept);
  if (!kept || std::all_of(members.begin(), members.end(), is_kept)) return success();
  const auto by_user = [](const TensorTreatment* member) { return member->decision.by_user; };
  if (std::any_of(members.begin(), members.end(), by_user)) {
    return Failure{
        ErrorCode::invalid_argument,
        fmt::format("quantize: the patterns split the {}, which inference engines run as one "
                    "layer: {} would be quantized, {} not; include or ignore all of them",
                    what, list_members(members, false), list_members(members, true))};
  }
  const auto first = *std::find_if(members.begin(), members.end(), is_kept);
  const std::string reason =
      fmt::format("belongs to {}: {}", module_of(first->entry->name), first->decision.reason);
  for (TensorTreatment* member : members) {
    if (is_kept(member)) continue;
    member->decision.treatment = Treatment::copy;
    member->decision.reason = reason;
  }
  return success();
}

// A part of fused experts that is not split is copied, its bias with it.
void keep(const Members& members, const std::string& reason) {
  for (TensorTreatment* member : members) {
    if (is_kept(member)) continue;
    member->decision.treatment = Treatment::copy;
    member->decision.reason = reason;
  }
}

bool bias_fits(const TensorTreatment& bias, const ExpertLayout& layout) {
  const std::int64_t width =
      *bias.part == ExpertPart::gate_up_bias ? 2 * layout.inner : layout.hidden;
  return bias.entry->shape == std::vector<std::int64_t>{layout.experts, width};
}

// All parts of one experts module.
Status settle_experts(const std::string& module, const Members& members, const Recipe& recipe) {
  const TensorTreatment *gate_up = nullptr, *down = nullptr;
  Members weights;
  for (TensorTreatment* member : members) {
    if (*member->part == ExpertPart::gate_up) gate_up = member;
    if (*member->part == ExpertPart::down) down = member;
    if (*member->part == ExpertPart::gate_up || *member->part == ExpertPart::down) {
      weights.push_back(member);
    }
  }
  if (Status agreed = agree(weights, "fused experts " + in_quotes(module)); !agreed) return agreed;
  if (!weights.empty() && is_kept(weights.front())) {
    keep(members, weights.front()->decision.reason);
    return success();
  }
  const auto answer = find_expert_layout(gate_up ? &gate_up->entry->shape : nullptr,
                                         down ? &down->entry->shape : nullptr, recipe.facts());
  if (!answer.layout) {
    keep(members, answer.reason);
    return success();
  }
  for (const std::int64_t row_length : {answer.layout->hidden, answer.layout->inner}) {
    const std::string problem = block_problem(row_length, recipe.format());
    if (problem.empty()) continue;
    keep(members, problem);
    return success();
  }
  for (const TensorTreatment* member : members) {
    const bool bias =
        *member->part == ExpertPart::gate_up_bias || *member->part == ExpertPart::down_bias;
    if (!bias || bias_fits(*member, *answer.layout)) continue;
    keep(members, "the shape of its bias does not fit");
    return success();
  }
  for (TensorTreatment* member : members) {
    member->decision.treatment = Treatment::split;  // patterns for the weights hold for the biases
    member->decision.by_user = false;
    member->decision.reason =
        fmt::format("fused experts: one linear layer for each of {}", answer.layout->experts);
    member->experts = answer.layout;
  }
  return success();
}

Status settle_all_experts(Treatments& treatments, const Recipe& recipe) {
  std::map<std::string, Members> modules;
  for (TensorTreatment& treatment : treatments) {
    if (!treatment.part) continue;
    modules[std::string(experts_module_of(treatment.entry->name))].push_back(&treatment);
  }
  for (const auto& [module, members] : modules) {
    if (Status settled = settle_experts(module, members, recipe); !settled) return settled;
  }
  return success();
}

Status settle_groups(Treatments& treatments, Format format) {
  std::map<std::string, Members> groups;
  for (TensorTreatment& treatment : treatments) {
    if (!treatment.decision.linear) continue;
    if (auto group = fused_group_of(module_of(treatment.entry->name))) {
      groups[*group].push_back(&treatment);
    }
  }
  for (const auto& [name, members] : groups) {
    if (Status agreed = agree(members, "fused group " + in_quotes(name)); !agreed) return agreed;
    if (members.size() < 2 || is_kept(members.front()) || info(format).e8m0_scale) continue;
    for (TensorTreatment* member : members) member->group = name;
  }
  return success();
}

// Tensors that only a quantized checkpoint has.
Status refuse_quantized(const ModelFolder& model, const Treatments& treatments) {
  constexpr std::array<std::string_view, 4> suffixes{".weight_packed", ".weight_scale",
                                                     ".weight_global_scale", ".weight_scale_inv"};
  for (const TensorTreatment& treatment : treatments) {
    if (!treatment.decision.linear) continue;
    for (const std::string_view suffix : suffixes) {
      const std::string name = std::string(module_of(treatment.entry->name)).append(suffix);
      if (!model.find(name)) continue;
      return Failure{
          ErrorCode::bad_input,
          fmt::format("quantize: '{}' holds {}, so its weights are quantized already; start "
                      "from the full-precision model",
                      model.root.string(), in_quotes(name))};
    }
  }
  return success();
}

}  // namespace

Result<Treatments> decide_treatments(const ModelFolder& model, const Recipe& recipe) {
  if (const auto& method = recipe.facts().quantized_by) {
    return Failure{
        ErrorCode::bad_input,
        fmt::format("quantize: '{}' is quantized already ({} in config.json); start from the "
                    "full-precision model, or dequantize it first",
                    model.root.string(), in_quotes(*method))};
  }
  std::vector<const TensorEntry*> entries;
  Treatments treatments;
  for (std::size_t shard = 0; shard < model.shards.size(); ++shard) {
    for (const TensorEntry& entry : model.shards[shard].header.tensors) {
      entries.push_back(&entry);
      treatments.push_back({shard, &entry, recipe.decide(entry), {}, {}, {}});
      if (treatments.back().entry->shape.size() >= 2) {
        treatments.back().part = fused_expert_part(entry.name);
      }
    }
  }
  if (const auto unused = recipe.unused_pattern(entries)) {
    return Failure{
        ErrorCode::invalid_argument,
        fmt::format("quantize: no tensor or module of '{}' matches {} {}; see the names with "
                    "--dry-run, without this pattern",
                    model.opened.string(), unused->option, in_quotes(unused->text))};
  }
  if (Status settled = settle_all_experts(treatments, recipe); !settled) return settled.failure();
  if (Status settled = settle_groups(treatments, recipe.format()); !settled)
    return settled.failure();
  if (Status dense = refuse_quantized(model, treatments); !dense) return dense.failure();
  return treatments;
}

std::vector<std::string> ignored_modules(const Treatments& treatments) {
  std::set<std::string> names{"lm_head"};
  for (const TensorTreatment& treatment : treatments) {
    const std::string module(module_of(treatment.entry->name));
    if (treatment.decision.treatment == Treatment::quantize) names.erase(module);
    if (treatment.decision.treatment != Treatment::copy) continue;
    if (treatment.decision.linear) names.insert(module);
    if (treatment.part && treatment.entry->shape.size() == 3) {
      // Loaders ask for the experts as one module, or for each layer of each expert.
      const std::string experts(experts_module_of(treatment.entry->name));
      names.insert(experts);
      std::string escaped;
      for (const char c : experts) escaped += c == '.' ? std::string("\\.") : std::string(1, c);
      names.insert("re:" + escaped + "\\..*");
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace microscale
