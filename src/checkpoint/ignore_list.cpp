#include "checkpoint/ignore_list.hpp"

#include <map>
#include <set>

#include "checkpoint/fused_groups.hpp"
#include "checkpoint/pattern.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

using Names = std::set<std::string, std::less<>>;

// "re:model\.layers\.61\..*": all that lies in a module.
std::string inside(std::string_view module) { return "re:" + escaped(module) + "\\..*"; }

// `module` and all that enclose it.
template <class Visit>
void visit_ancestors(std::string_view module, const Visit& visit) {
  for (; !module.empty(); module = parent_of(module)) visit(module);
}

// Of a tensor that becomes codes, the modules that loaders find them in or above.
Names modules_with_codes(const std::vector<TensorTreatment>& treatments) {
  Names names;
  for (const TensorTreatment& treatment : treatments) {
    const Treatment what = treatment.decision.treatment;
    if (what != Treatment::quantize && what != Treatment::split) continue;
    const std::string_view module = what == Treatment::split
                                        ? experts_module_of(treatment.entry->name)
                                        : module_of(treatment.entry->name);
    visit_ancestors(module, [&](std::string_view name) { names.emplace(name); });
  }
  return names;
}

// Kept matrices in experts: loaders ask for the experts as one module, or for each layer of each.
void add_experts(const TensorTreatment& treatment, const Names& with_codes, Names& list) {
  const TensorEntry& entry = *treatment.entry;
  const auto odd = odd_experts_of(entry.name, entry.shape);
  const std::string_view experts = odd ? *odd : experts_module_of(entry.name);
  list.emplace(module_of(entry.name));
  if (experts.empty() || with_codes.contains(experts)) return;
  list.emplace(experts);
  list.insert(inside(experts));
}

// Where nothing that an outermost module encloses is quantized, one pattern names all of it.
void add_containers(const Names& kept, const Names& with_codes, Names& list) {
  std::map<std::string_view, int> members;
  for (const std::string& module : kept) {
    std::string_view outermost;
    visit_ancestors(parent_of(module), [&](std::string_view name) {
      if (!with_codes.contains(name)) outermost = name;
    });
    if (!outermost.empty()) ++members[outermost];
  }
  for (const auto& [module, count] : members) {
    if (count > 1) list.insert(inside(module));
  }
}

void add_fused_names(const Names& kept, const Names& with_codes, Names& list) {
  std::map<std::string, int> members;
  for (const std::string& module : kept) {
    if (const auto name = fused_name_of(module)) ++members[*name];
  }
  // One with codes among them cannot be: a group is kept whole.
  for (const auto& [name, count] : members) {
    if (count > 1 && !with_codes.contains(name)) list.insert(name);
  }
}

}  // namespace

std::vector<std::string> ignored_modules(const std::vector<TensorTreatment>& treatments) {
  const Names with_codes = modules_with_codes(treatments);
  Names kept;
  for (const TensorTreatment& treatment : treatments) {
    if (treatment.decision.treatment == Treatment::copy && treatment.decision.linear) {
      kept.emplace(module_of(treatment.entry->name));
    }
  }
  Names list = kept;
  if (!with_codes.contains("lm_head")) list.insert("lm_head");
  for (const TensorTreatment& treatment : treatments) {
    if (treatment.decision.treatment == Treatment::copy &&
        treatment.verdict.kind == TensorKind::experts && treatment.entry->shape.size() > 1) {
      add_experts(treatment, with_codes, list);
    }
  }
  add_containers(kept, with_codes, list);
  add_fused_names(kept, with_codes, list);
  return {list.begin(), list.end()};
}

}  // namespace microscale
