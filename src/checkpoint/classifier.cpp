#include "checkpoint/classifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

bool is_bias(ExpertPart part) {
  return part == ExpertPart::gate_up_bias || part == ExpertPart::down_bias;
}

Verdict kept(Kept why, TensorKind kind = TensorKind::other, std::string reason = {}) {
  Verdict verdict;
  verdict.kind = kind;
  verdict.kept = why;
  verdict.reason = reason.empty() ? std::string(phrase_of(why)) : std::move(reason);
  return verdict;
}

// gpt-oss, by what it alone has: biases of fused experts, beside sinks or a router with a bias.
bool has_gpt_oss_marks(const std::vector<const TensorEntry*>& entries) {
  bool bias = false, beside = false;
  for (const TensorEntry* entry : entries) {
    const std::string_view name = entry->name;
    bias |= name.ends_with("experts.gate_up_proj_bias");
    beside |= name.ends_with("router.bias") || name.ends_with("self_attn.sinks");
  }
  return bias && beside;
}

using Entries = std::vector<const TensorEntry*>;

// `beside`: of the files that lie beside the model and are no strays.
Result<Classifier> classify(const ModelFolder& model, const Entries& entries, Entries beside) {
  ModelFacts facts;
  if (model.config_text) {
    auto read = read_model_facts(*model.config_text);
    if (!read) return read.failure();
    facts = std::move(read.value());
  }
  for (const ModelShard& stray : model.strays) {
    for (const TensorEntry& entry : stray.header.tensors) {
      if (!model.find(entry.name)) beside.push_back(&entry);
    }
  }
  return Classifier(entries, std::move(facts), beside);
}

}  // namespace

Classifier::Classifier(const std::vector<const TensorEntry*>& entries, ModelFacts facts,
                       const std::vector<const TensorEntry*>& beside)
    : entries_(entries), facts_(std::move(facts)) {
  std::vector<std::string_view> names;
  for (const TensorEntry* entry : entries) names.push_back(entry->name);
  rules_ = LayerRules(names, facts_);
  order_ = has_gpt_oss_marks(entries) ? ExpertOrder::interleaved : expert_order_of(facts_);
  entries_.insert(entries_.end(), beside.begin(), beside.end());
  std::sort(entries_.begin(), entries_.end(),
            [](const TensorEntry* a, const TensorEntry* b) { return a->name < b->name; });
  for (const TensorEntry* entry : entries_) note_experts(*entry);
}

void Classifier::note_experts(const TensorEntry& tensor) {
  constexpr std::string_view word = ".experts.";
  const std::size_t at = tensor.name.find(word);
  if (at == std::string::npos || tensor.shape.size() < 2) return;
  Experts& experts = experts_[tensor.name.substr(0, at)];
  if (facts_.hidden_size) experts.widths.insert(*facts_.hidden_size);
  const std::vector<std::int64_t>& shape = tensor.shape;
  experts.widths.insert(shape.back());
  if (shape.size() == 3) {
    experts.widths.insert(shape[1]);
    experts.count = std::max(experts.count, shape[0]);
    return;
  }
  if (tensor.type == StoredType::u8) experts.widths.insert(2 * shape.back());
  std::int64_t number = -1;
  const char* begin = tensor.name.data() + at + word.size();
  const auto parsed = std::from_chars(begin, tensor.name.data() + tensor.name.size(), number);
  if (parsed.ec != std::errc()) return;
  experts.count = std::max(experts.count, number + 1);
}

// A matrix beside the experts of a layer with a row for each of them is their router, whatever its
// name.
bool Classifier::scores_experts(std::string_view module,
                                std::span<const std::int64_t> shape) const {
  if (shape.size() != 2 || leaf_of(module).find("expert") != module.npos) return false;
  std::string_view holder = parent_of(module);
  auto experts = experts_.find(holder);
  if (experts == experts_.end()) experts = experts_.find(holder = parent_of(holder));
  if (experts == experts_.end() || holder.empty()) return false;
  const std::string_view within = module.substr(holder.size() + 1);
  // Where the layer itself holds the experts, its attention lies beside them, too.
  const bool direct = within.find('.') == within.npos;
  const auto layer = repeated_layer_of(module);
  if (!direct && ((layer && layer->layer == holder) || within.find("expert") != within.npos)) {
    return false;
  }
  return experts->second.count > 1 && shape[0] == experts->second.count &&
         experts->second.widths.contains(shape[1]);
}

Kept Classifier::nature_of(std::string_view module, std::span<const std::int64_t> shape) const {
  const Kept nature = rules_.reason(module, shape, facts_);
  const bool ordinary = nature == Kept::no || nature == Kept::tiny;
  return ordinary && scores_experts(module, shape) ? Kept::router : nature;
}

const TensorEntry* Classifier::find(std::string_view name) const {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const TensorEntry* a, std::string_view b) { return a->name < b; });
  return found != entries_.end() && (*found)->name == name ? *found : nullptr;
}

Verdict Classifier::judge(const TensorEntry& tensor) const {
  if (is_kv_cache_scale(tensor.name)) {
    Verdict verdict = kept(Kept::no_weight, TensorKind::kv_scale, "scale of the key-value cache");
    verdict.module = parent_of(tensor.name);
    return verdict;
  }
  const auto mark = find_quantizer_mark(tensor, [&](std::string_view name) { return find(name); });
  if (mark) {
    Verdict verdict = kept(Kept::element_type, TensorKind::quantized,
                           fmt::format("quantized already: {}", to_string(mark->tool)));
    verdict.tool = mark->tool;
    verdict.module = mark->module;
    return verdict;
  }
  if (const auto module = leftover_of(tensor.name)) {
    Verdict verdict = kept(Kept::no_weight, TensorKind::leftover, "left over from a calibration");
    verdict.module = *module;
    return verdict;
  }
  Verdict verdict = judge_dense(tensor);
  verdict.module = module_of(tensor.name);
  return verdict;
}

Verdict Classifier::judge_dense(const TensorEntry& tensor) const {
  const auto part = tensor.shape.size() >= 2 ? fused_expert_part(tensor.name) : std::nullopt;
  const std::string_view module = module_of(tensor.name);
  const bool weight = part ? !is_bias(*part) : tensor.name.ends_with(".weight");
  const bool matrix = part && weight ? tensor.shape.size() == 3 : tensor.shape.size() == 2;
  Verdict verdict;
  verdict.part = part;
  const std::vector<std::int64_t> unknown;
  const Kept nature = nature_of(module, weight ? tensor.shape : unknown);
  if (part && !matrix) {
    verdict.kind = TensorKind::experts;
    verdict.kept = Kept::odd_experts;
  } else if (part) {
    verdict.kind = TensorKind::experts;
    verdict.kept = nature;
    verdict.reason = weight ? "fused experts" : "bias of fused experts";
  } else if (odd_experts_of(tensor.name, tensor.shape)) {
    return kept(nature == Kept::no ? Kept::odd_experts : nature, TensorKind::experts);
  } else if (tensor.shape.empty()) {
    return kept(Kept::scalar);
  } else if (tensor.shape.size() == 1) {
    return kept(Kept::vector);
  } else if (!weight) {
    return kept(nature == Kept::no ? Kept::no_weight : nature);
  } else if (!matrix) {
    return nature == Kept::no || nature == Kept::outside
               ? kept(Kept::convolution, TensorKind::other,
                      fmt::format("{}-D weight, no linear layer", tensor.shape.size()))
               : kept(nature);
  } else {
    verdict.kind = is_no_linear(nature) ? TensorKind::other : TensorKind::linear;
    verdict.kept = nature;
    verdict.linear = verdict.kind == TensorKind::linear;
    verdict.reason = "linear weight";
  }
  if (verdict.kept == Kept::no && !dense_type(tensor.type)) {
    verdict.kept = Kept::element_type;
    verdict.reason = fmt::format("{} elements are not quantized", to_string(tensor.type));
  } else if (verdict.kept == Kept::no &&
             std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) {
    verdict.kept = Kept::empty;
  }
  if (verdict.kept != Kept::no && verdict.kept != Kept::element_type) {
    verdict.reason = phrase_of(verdict.kept);
  }
  return verdict;
}

Result<Classifier> classify_model(const ModelFolder& model) {
  Entries entries, beside;
  for (const ModelTensor& tensor : model.tensors) {
    (model.shards[tensor.shard].side ? beside : entries).push_back(tensor.entry);
  }
  return classify(model, entries, std::move(beside));
}

Result<Classifier> classify_model(const ModelFolder& model, const DenseView& view) {
  Entries entries, beside;
  for (const DenseTensor& tensor : view.tensors) {
    (model.shards[tensor.shard].side ? beside : entries).push_back(&tensor.entry);
  }
  return classify(model, entries, std::move(beside));
}

std::optional<DType> dense_type(StoredType type) {
  switch (type) {
    case StoredType::f32:
      return DType::f32;
    case StoredType::f16:
      return DType::f16;
    case StoredType::bf16:
      return DType::bf16;
    default:
      return std::nullopt;
  }
}

}  // namespace microscale
