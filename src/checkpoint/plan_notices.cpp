#include "checkpoint/plan_notices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "checkpoint/json.hpp"
#include "checkpoint/quantization_config.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

// What a calibration left behind goes, and is named.
void tell_dropped(ModelPlan& plan) {
  const TensorEntry* first = nullptr;
  std::size_t count = 0;
  for (const TensorTreatment& tensor : plan.tensors) {
    if (tensor.decision.treatment != Treatment::drop ||
        tensor.verdict.kind != TensorKind::leftover) {
      continue;
    }
    if (count++ == 0) first = tensor.entry;
  }
  if (count == 0) return;
  plan.summary.notices.push_back(fmt::format(
      "{}{} left out: left over from a calibration, and no loader of a converted model "
      "takes it",
      in_quotes(first->name), count > 1 ? fmt::format(" and {} more are", count - 1) : " is"));
}

void tell_wrapper(ModelPlan& plan, const std::string& text) {
  plan.summary.notices.push_back(
      fmt::format("names of tensors hold {}, which a tool of training has put there: loaders look "
                  "for the names without it; rename them, and convert again",
                  in_quotes(text)));
}

// A folder whose config.json will say how weights are quantized, and not of what model.
void tell_missing_config(ModelPlan& plan, const ModelFacts& facts) {
  if (plan.model.is_gguf || plan.one_file || facts.names_model())
    return;  // a bare GGUF file has its own notice
  plan.summary.notices.push_back(
      fmt::format("{}: the output's says only how its weights are quantized, and no loader knows "
                  "the model from "
                  "that; put the model's config.json beside the weights and convert again",
                  plan.model.config_text
                      ? "config.json names no model (model_type, architectures or _class_name)"
                      : "there is no config.json"));
}

// What wrappers of training put into names.
void tell_wrappers(ModelPlan& plan) {
  constexpr std::array<std::string_view, 2> first{"module", "base_model"};
  constexpr std::array<std::string_view, 3> anywhere{"_orig_mod", "_fsdp_wrapped_module",
                                                     "_checkpoint_wrapped_module"};
  for (const std::string_view word : first) {
    const std::string prefix = std::string(word) + (word == "base_model" ? ".model." : ".");
    const bool all = std::all_of(
        plan.tensors.begin(), plan.tensors.end(),
        [&](const TensorTreatment& tensor) { return tensor.entry->name.starts_with(prefix); });
    if (all && !plan.tensors.empty()) return tell_wrapper(plan, prefix);
  }
  for (const TensorTreatment& tensor : plan.tensors) {
    for (const std::string_view part : parts_of(tensor.entry->name)) {
      if (is_one_of(part, anywhere)) return tell_wrapper(plan, std::string(part) + ".");
    }
  }
}

// Matrices that a training framework puts together when the model runs: weight norm, pruning.
void tell_parametrized(ModelPlan& plan) {
  constexpr std::array<std::string_view, 3> leaves{"weight_v", "weight_orig", "original1"};
  std::vector<std::string_view> modules;
  for (const TensorTreatment& tensor : plan.tensors) {
    const TensorEntry& entry = *tensor.entry;
    if (!is_one_of(leaf_of(entry.name), leaves) || entry.shape.size() != 2) continue;
    std::string_view module = parent_of(entry.name);
    constexpr std::string_view inner = ".parametrizations.weight";
    if (leaf_of(entry.name) == "original1" && !module.ends_with(inner)) continue;
    if (module.ends_with(inner)) module.remove_suffix(inner.size());
    modules.push_back(module);
  }
  if (modules.empty()) return;
  plan.summary.notices.push_back(
      fmt::format("{}{} kept as {}: the weight is stored in parts (weight norm, pruning), which "
                  "only a training "
                  "framework puts together; make one weight of them first, as remove_weight_norm, "
                  "prune.remove or remove_parametrizations of torch do",
                  in_quotes(modules.front()),
                  modules.size() > 1 ? fmt::format(" and {} more are", modules.size() - 1) : " is",
                  modules.size() > 1 ? "they are" : "it is"));
}

// Layers that are kept because config.json counts fewer, though nothing else marks them.
void tell_uncounted_layers(ModelPlan& plan, const ModelFacts& facts) {
  if (!facts.layers) return;
  std::map<std::string, std::set<std::int64_t>> uncounted;  // stack -> layers
  std::set<std::pair<std::string, std::int64_t>> marked;
  for (const TensorTreatment& tensor : plan.tensors) {
    const auto layer = repeated_layer_of(tensor.entry->name);
    if (!layer || layer->number < *facts.layers) continue;
    const std::string stack(layer->stack);
    constexpr std::array<std::string_view, 4> marks{"eh_proj", "enorm", "hnorm", "shared_head"};
    if (has_part(parts_of(tensor.entry->name), marks)) marked.emplace(stack, layer->number);
    if (tensor.decision.kept == Kept::prediction_layer) uncounted[stack].insert(layer->number);
  }
  for (const auto& [stack, layers] : uncounted) {
    const bool bare = std::any_of(layers.begin(), layers.end(), [&](std::int64_t number) {
      return !marked.contains({stack, number});
    });
    if (!bare) continue;
    plan.summary.notices.push_back(
        fmt::format("{} layer{} of {} {} kept as prediction layers, because num_hidden_layers in "
                    "config.json is "
                    "{}; if that number is wrong, correct it and convert again",
                    layers.size(), layers.size() == 1 ? "" : "s", in_quotes(stack),
                    layers.size() == 1 ? "is" : "are", *facts.layers));
  }
}

}  // namespace

void tell_oddities(ModelPlan& plan, const ModelFacts& facts) {
  tell_dropped(plan);
  tell_wrappers(plan);
  tell_parametrized(plan);
  tell_missing_config(plan, facts);
  tell_uncounted_layers(plan, facts);
}

void tell_undescribed_cache(ModelPlan& plan) {
  const auto is_scale = [](const TensorTreatment& tensor) {
    return tensor.verdict.kind == TensorKind::kv_scale;
  };
  const auto first = std::find_if(plan.tensors.begin(), plan.tensors.end(), is_scale);
  if (first == plan.tensors.end()) return;
  const auto config = parse_quantization_config(plan.config_text);
  if (!config || !config.value() || config.value()->kv_cache) return;
  const auto more = std::count_if(first + 1, plan.tensors.end(), is_scale);
  plan.summary.notices.push_back(fmt::format(
      "{}{} copied: scales of the key-value cache, which the input's config.json does not describe "
      "(kv_cache_scheme), so engines use them only where they are told to",
      in_quotes(first->entry->name), more > 0 ? fmt::format(" and {} more are", more) : " is"));
}

void tell_unscaled_inputs(ModelPlan& plan) {
  std::size_t count = 0;
  for (const ShardPlan& shard : plan.shards) {
    count += static_cast<std::size_t>(
        std::count_if(shard.matrices.begin(), shard.matrices.end(), [](const auto& matrix) {
          return matrix.format == WeightFormat::fp8_tensor && matrix.input_amax == 0;
        }));
  }
  if (count == 0) return;
  plan.summary.notices.push_back(fmt::format(
      "{} layers get ModelOpt's FP8 without a scale of their inputs, which engines read "
      "for each; give --input-scales, or choose fp8, whose inputs need none",
      count));
}

}  // namespace microscale
