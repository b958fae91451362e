#include "checkpoint/treatments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "checkpoint/coded_input.hpp"
#include "checkpoint/fused_groups.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/kept_codes.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

using Treatments = std::vector<TensorTreatment>;
using Members = std::vector<TensorTreatment*>;

bool is_kept(const TensorTreatment* member) {
  return member->decision.treatment == Treatment::copy;
}

std::string shape_of(const TensorEntry& entry) {
  return fmt::format("[{}]", fmt::join(entry.shape, ", "));
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

void keep(TensorTreatment& member, Kept why, const std::string& reason) {
  member.decision.treatment = Treatment::copy;
  member.decision.reason = reason;
  member.decision.kept = why;
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
    keep(*member, Kept::group, reason);
  }
  return success();
}

// Members that are quantized get one format.
Status agree_on_format(const Members& members, const std::string& what) {
  const TensorTreatment* first = nullptr;
  for (const TensorTreatment* member : members) {
    if (is_kept(member)) continue;
    if (!first) first = member;
    if (member->format == first->format) continue;
    return Failure{
        ErrorCode::invalid_argument,
        fmt::format("quantize: --use gives the {}, which inference engines run as one "
                    "layer, several formats: {} would be {}, {} {}; give all of it one",
                    what, in_quotes(module_of(first->entry->name)), to_string(first->format),
                    in_quotes(module_of(member->entry->name)), to_string(member->format))};
  }
  return success();
}

// A part of fused experts that is not split is copied, its bias with it.
void keep_all(const Members& members, Kept why, const std::string& reason) {
  for (TensorTreatment* member : members) {
    if (!is_kept(member)) keep(*member, why, reason);
  }
}

bool is_bias(const TensorTreatment& member) {
  return member.verdict.part == ExpertPart::gate_up_bias ||
         member.verdict.part == ExpertPart::down_bias;
}

bool bias_fits(const TensorTreatment& bias, const ExpertLayout& layout) {
  const std::int64_t width =
      *bias.verdict.part == ExpertPart::gate_up_bias ? 2 * layout.inner : layout.hidden;
  return bias.entry->shape == std::vector<std::int64_t>{layout.experts, width};
}

// How gate and up lie in fused experts: as the user says, and as the model does.
struct Orders {
  std::optional<ExpertOrder> given, told;
};

std::string_view words_of(ExpertOrder order) {
  return order == ExpertOrder::halves ? "halves" : "interleaved";
}

// Of this tensor: the one that is known, if they do not contradict each other.
Result<ExpertOrder> order_of(const TensorEntry& gate_up, const Orders& orders) {
  if (orders.given && orders.told && *orders.given != *orders.told) {
    return Failure{
        ErrorCode::invalid_argument,
        fmt::format("quantize: --experts {} contradicts the model: by its config.json or "
                    "tensors, gate and up of {} are {}; leave the option out",
                    words_of(*orders.given), in_quotes(gate_up.name), words_of(*orders.told))};
  }
  if (orders.given) return *orders.given;
  if (orders.told) return *orders.told;
  return Failure{
      ErrorCode::invalid_argument,
      fmt::format("quantize: whether gate and up are interleaved in {} cannot be told from "
                  "config.json or the tensors; say --experts interleaved (as gpt-oss has them) "
                  "or --experts halves (all of gate, then all of up, as nearly all others)",
                  in_quotes(gate_up.name))};
}

// All parts of one experts module.
Status settle_experts(const std::string& module, const Members& members, const ModelFacts& facts,
                      const Orders& orders) {
  const TensorTreatment *gate_up = nullptr, *down = nullptr;
  Members weights;
  for (TensorTreatment* member : members) {
    if (*member->verdict.part == ExpertPart::gate_up) gate_up = member;
    if (*member->verdict.part == ExpertPart::down) down = member;
    if (!is_bias(*member)) weights.push_back(member);
  }
  const std::string what = "fused experts " + in_quotes(module);
  if (Status agreed = agree(weights, what); !agreed) return agreed;
  if (Status agreed = agree_on_format(weights, what); !agreed) return agreed;
  if (!weights.empty() && is_kept(weights.front())) {
    const Decision& decision = weights.front()->decision;
    keep_all(members, decision.kept, decision.reason);
    return success();
  }
  auto answer = find_expert_layout(gate_up ? &gate_up->entry->shape : nullptr,
                                   down ? &down->entry->shape : nullptr, facts);
  if (!answer.layout) {
    keep_all(members, Kept::odd_experts, answer.reason);
    return success();
  }
  for (const std::int64_t row_length : {answer.layout->hidden, answer.layout->inner}) {
    const std::string problem = block_problem(row_length, weights.front()->format);
    if (problem.empty()) continue;
    keep_all(members, Kept::block, problem);
    return success();
  }
  for (const TensorTreatment* member : members) {
    if (!is_bias(*member) || bias_fits(*member, *answer.layout)) continue;
    keep_all(members, Kept::odd_experts, "the shape of its bias does not fit");
    return success();
  }
  const auto order = order_of(*gate_up->entry, orders);
  if (!order) return order.failure();
  answer.layout->interleaved = order.value() == ExpertOrder::interleaved;
  for (TensorTreatment* member : members) {
    member->decision.treatment = Treatment::split;  // patterns for the weights hold for the biases
    member->decision.by_user = false;
    member->decision.kept = Kept::no;
    member->decision.reason =
        fmt::format("fused experts: one linear layer for each of {}", answer.layout->experts);
    member->experts = answer.layout;
  }
  return success();
}

Status settle_all_experts(Treatments& treatments, const ModelFacts& facts, const Orders& orders) {
  std::map<std::string, Members> modules;
  for (TensorTreatment& treatment : treatments) {
    if (!treatment.verdict.part) continue;
    modules[std::string(experts_module_of(treatment.entry->name))].push_back(&treatment);
  }
  for (const auto& [module, members] : modules) {
    Status settled = settle_experts(module, members, facts, orders);
    if (!settled) return settled;
  }
  return success();
}

std::map<std::string, Members> groups_of(Treatments& treatments) {
  std::map<std::string, Members> groups;
  for (TensorTreatment& treatment : treatments) {
    if (!treatment.entry->name.ends_with(".weight")) continue;
    if (auto group = fused_group_of(module_of(treatment.entry->name))) {
      groups[*group].push_back(&treatment);
    }
  }
  return groups;
}

Status settle_groups(Treatments& treatments) {
  for (const auto& [name, members] : groups_of(treatments)) {
    const std::string what = "fused group " + in_quotes(name);
    if (Status agreed = agree(members, what); !agreed) return agreed;
    if (Status agreed = agree_on_format(members, what); !agreed) return agreed;
  }
  return success();
}

// Groups whose members share one global scale.
void name_groups(Treatments& treatments) {
  for (const auto& [name, members] : groups_of(treatments)) {
    if (members.size() < 2 || is_kept(members.front())) continue;
    if (!has_tensor_scale(members.front()->format)) continue;
    for (TensorTreatment* member : members) member->group = name;
  }
}

// The experts of one layer, each with matrices of its own: loaders take them for one layer.
Status settle_expert_layers(Treatments& treatments) {
  std::map<std::string, Members> layers;
  for (TensorTreatment& treatment : treatments) {
    if (!treatment.decision.linear || treatment.verdict.part) continue;
    if (auto layer = expert_layer_of(module_of(treatment.entry->name))) {
      layers[std::string(*layer)].push_back(&treatment);
    }
  }
  for (const auto& [name, members] : layers) {
    const std::string what = "experts of " + in_quotes(name);
    if (Status agreed = agree(members, what); !agreed) return agreed;
    if (Status agreed = agree_on_format(members, what); !agreed) return agreed;
  }
  return success();
}

// Parts of quantized weights that do not fit together.
Failure not_whole(const ModelFolder& model, const Findings& unusable, const Finding& first) {
  const std::size_t others = unusable.size() - 1;
  const std::string more =
      others > 0 ? fmt::format(" (and {} more problems; run verify)", others) : "";
  return {ErrorCode::bad_input,
          fmt::format("quantize: '{}': {}{}", model.opened.string(), first.message, more)};
}

// Weights that cannot be decoded, unless --ignore names each of them.
Status refuse_quantized(const ModelFolder& model, const DenseView& view, Treatments& treatments,
                        const Recipe& recipe) {
  std::set<std::string_view> ignored;  // tensors and their modules
  for (TensorTreatment& treatment : treatments) {
    const Verdict& verdict = treatment.verdict;
    if (verdict.kind != TensorKind::quantized) continue;
    // Bytes of GGUF's blocks are of no use in another file, whatever the option says.
    if (!model.is_gguf && recipe.ignores_by_name(*treatment.entry, verdict.module)) {
      treatment.decision = {Treatment::copy, verdict.reason + ", and named by --ignore",
                            !treatment.entry->shape.empty(), true, Kept::ignored};
      ignored.insert({treatment.entry->name, verdict.module});
      continue;
    }
    if (!view.unusable.empty()) return not_whole(model, view.unusable, view.unusable.front());
    return Failure{
        ErrorCode::bad_input,
        fmt::format("quantize: the weights of '{}' are quantized already: {} ({} {}) shows {}; "
                    "{}; if it is no weight, keep it with --ignore {}",
                    model.opened.string(), in_quotes(treatment.entry->name),
                    to_string(treatment.entry->type), shape_of(*treatment.entry),
                    to_string(*verdict.tool), way_to_dense(*verdict.tool),
                    in_quotes(verdict.module))};
  }
  // What stands for a weight need not look like one.
  for (const Finding& finding : view.unusable) {
    if (!ignored.contains(finding.tensor)) return not_whole(model, view.unusable, finding);
  }
  return success();
}

// The same of files beside the model, which are copied as they are: an engine would take their
// codes for weights.
Status refuse_quantized_strays(const ModelFolder& model, const Classifier& classifier,
                               const Recipe& recipe) {
  for (const ModelShard& stray : model.strays) {
    for (const TensorEntry& entry : stray.header.tensors) {
      if (model.find(entry.name)) continue;
      const Verdict verdict = classifier.judge(entry);
      if (verdict.kind != TensorKind::quantized || recipe.ignores_by_name(entry, verdict.module)) {
        continue;
      }
      return Failure{
          ErrorCode::bad_input,
          fmt::format("quantize: {} beside the model holds weights that are quantized already: {} "
                      "({} {}) shows {}; {}, or move the file elsewhere; if it is no weight, keep "
                      "it with --ignore {}",
                      in_quotes(stray.name), in_quotes(entry.name), to_string(entry.type),
                      shape_of(entry), to_string(*verdict.tool), way_to_dense(*verdict.tool),
                      in_quotes(verdict.module))};
    }
  }
  return success();
}

// A --use without effect is a typing error, or stands behind one that takes all it would.
Status check_use(const Treatments& treatments, const Recipe& recipe) {
  std::vector<const TensorEntry*> quantized;
  for (const TensorTreatment& treatment : treatments) {
    const Treatment what = treatment.decision.treatment;
    if (what == Treatment::quantize || what == Treatment::split)
      quantized.push_back(treatment.entry);
  }
  const auto idle = recipe.idle_use(quantized);
  if (!idle) return success();
  return Failure{ErrorCode::invalid_argument,
                 fmt::format("quantize: no layer gets its format by --use {}: it matches none that "
                             "is quantized, or an earlier --use takes them all; see the names with "
                             "--dry-run",
                             in_quotes(*idle))};
}

}  // namespace

Result<Treatments> decide_treatments(const ModelFolder& model, const DenseView& view,
                                     const Classifier& classifier, const Recipe& recipe,
                                     std::optional<ExpertOrder> experts,
                                     const QuantizeModelOptions* keeping) {
  if (Status dense = refuse_described(model, view, classifier); !dense) return dense.failure();
  const std::vector<const TensorEntry*> entries = view.entries();
  Treatments treatments;
  for (const DenseTensor& tensor : view.tensors) {
    Verdict verdict = classifier.judge(tensor.entry);
    Decision decision = recipe.decide(tensor.entry, verdict);
    treatments.push_back(
        {tensor.shard, &tensor.entry, std::move(decision), std::move(verdict), {}, {}});
    treatments.back().source = &tensor;
    treatments.back().format = recipe.format_of(tensor.entry);
    if (keeping) keep_codes(treatments.back(), *keeping);
  }
  if (Status dense = refuse_quantized(model, view, treatments, recipe); !dense)
    return dense.failure();
  if (Status dense = refuse_quantized_strays(model, classifier, recipe); !dense) {
    return dense.failure();
  }
  std::vector<const TensorEntry*> beside;
  for (const ModelShard& stray : model.strays) {
    for (const TensorEntry& entry : stray.header.tensors) beside.push_back(&entry);
  }
  if (const auto unused = recipe.unused_pattern(entries, classifier, beside)) {
    return Failure{
        ErrorCode::invalid_argument,
        fmt::format("quantize: no tensor or module of '{}' matches {} {}; see the names with "
                    "--dry-run, without this pattern",
                    model.opened.string(), unused->option, in_quotes(unused->text))};
  }
  if (Status settled =
          settle_all_experts(treatments, classifier.facts(), {experts, classifier.expert_order()});
      !settled) {
    return settled.failure();
  }
  if (!keeping) {  // else the input has settled it
    if (Status settled = settle_groups(treatments); !settled) return settled.failure();
    if (Status settled = settle_expert_layers(treatments); !settled) return settled.failure();
  }
  name_groups(treatments);
  if (Status used = check_use(treatments, recipe); !used) return used.failure();
  return treatments;
}

}  // namespace microscale
