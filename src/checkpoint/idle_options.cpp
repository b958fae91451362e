#include "checkpoint/idle_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "checkpoint/importance.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/layer_hessians.hpp"
#include "checkpoint/pattern.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/weight_format.hpp"

namespace microscale {
namespace {

Failure no_effect(const std::string& option, const std::string& why) {
  return {ErrorCode::invalid_argument,
          fmt::format("quantize: {} has no effect: {}; leave it out", option, why)};
}

Status check_experts(const ModelPlan& plan, const QuantizeModelOptions& options) {
  if (!options.experts) return success();
  const TensorTreatment* kept = nullptr;
  for (const TensorTreatment& tensor : plan.tensors) {
    if (tensor.experts) return success();
    if (tensor.verdict.part == ExpertPart::gate_up) kept = &tensor;
  }
  return no_effect("--experts",
                   kept ? fmt::format("{} is kept as it is ({})", in_quotes(kept->entry->name),
                                      kept->decision.reason)
                        : "the model has no gate and up of experts in one tensor (gate_up_proj)");
}

// Formats with blocks, by the layers that get them.
std::vector<Format> block_formats(const ModelPlan& plan) {
  std::vector<Format> formats;
  for (const WeightFormat format : formats_in(plan)) {
    if (const auto blocks = blocks_of(format)) formats.push_back(*blocks);
  }
  return formats;
}

Status check_rules(ModelPlan& plan, const QuantizeModelOptions& options) {
  const Numerics usual, &given = options.numerics;
  const std::vector<Format> formats = block_formats(plan);
  if (formats.empty()) {
    if (given == usual) return success();
    return no_effect(given.scale_rule != usual.scale_rule ? "--scale-rule"
                     : given.rounding != usual.rounding   ? "--rounding"
                                                          : "--compat",
                     "all layers become fp8, whose scales and codes are one thing for each row");
  }
  if (given.compat != Compat::none) return success();  // each format as the tool has it
  std::vector<Format> others;
  std::copy_if(formats.begin(), formats.end(), std::back_inserter(others), [&](Format format) {
    return numerics_of(options, format).scale_rule != given.scale_rule;
  });
  if (others.size() == formats.size()) {
    return no_effect(fmt::format("--scale-rule {}", to_string(given.scale_rule)),
                     fmt::format("no layer becomes {}, and {} has no such rule",
                                 info(options.format).name, info(formats.front()).name));
  }
  for (const Format format : others) {
    plan.summary.notices.push_back(fmt::format(
        "layers in {} follow the scale rule {}, as that format has no rule {}", info(format).name,
        to_string(numerics_of(options, format).scale_rule), to_string(given.scale_rule)));
  }
  return success();
}

Status check_activations(const ModelPlan& plan, const QuantizeModelOptions& options) {
  const std::vector<WeightFormat> formats = formats_in(plan);
  const bool stored_only = std::all_of(formats.begin(), formats.end(),
                                       [](WeightFormat f) { return f == WeightFormat::nvfp4; });
  const bool has_stored = std::any_of(formats.begin(), formats.end(), has_tensor_scale);
  if (options.activations == Activations::dynamic && stored_only && options.input_scales.empty()) {
    return no_effect("--activations dynamic",
                     "all layers become nvfp4, whose inputs need a stored scale (--input-scales)");
  }
  if (!options.input_scales.empty() && !has_stored) {
    return no_effect("--input-scales", "no layer becomes nvfp4 or fp8_tensor");
  }
  return success();
}

// `solved` of `layers` are quantized with a Hessian.
Status check_hessians(ModelPlan& plan, const QuantizeModelOptions& options, std::size_t solved,
                      std::size_t layers) {
  const StatisticsUse& use = options.statistics;
  const std::string file = options.importance.string();
  if (solved == 0) {
    if (use.method == StatisticsMethod::search || use == StatisticsUse{} || options.choice)
      return success();
    return Failure{
        ErrorCode::invalid_argument,
        fmt::format(
            "quantize: --method {} wants Hessians, and '{}' has none of a layer that becomes "
            "nvfp4 or mxfp4; make one with microscale.calibrate, or take --method search",
            to_string(use.method), file)};
  }
  const Numerics& numerics = options.numerics;
  const Numerics usual{.scale_rule = numerics.scale_rule, .seed = numerics.seed};
  const bool searches =
      numerics.scale_rule == ScaleRule::search || numerics.scale_rule == ScaleRule::full;
  if (!searches || numerics != usual)
    return Failure{ErrorCode::invalid_argument,
                   "quantize: with the Hessians of '" + file +
                       "' scales are searched (--scale-rule search or full) and codes rounded to "
                       "the nearest, by our own numerics; leave the other rules out, or take "
                       "--method search"};
  if (solved < layers)
    plan.summary.notices.push_back(fmt::format(
        "'{}' has Hessians for {} of {} layers; the others are searched", file, solved, layers));
  return success();
}

Status check_importance(ModelPlan& plan, const QuantizeModelOptions& options) {
  if (options.importance.empty()) return success();
  const auto importance = Importance::open(options.importance, plan);
  if (!importance) return importance.failure();
  const LayerHessians hessians(plan, options, &importance.value());
  std::size_t layers = 0, weighed = 0, solved = 0;
  for (const ShardPlan& shard : plan.shards) {
    for (const QuantizedMatrix& matrix : shard.matrices) {
      if (!blocks_of(matrix.format)) continue;
      ++layers;
      solved += hessians.has(matrix);
      weighed += hessians.has(matrix) || importance.value().has(matrix.slice.module);
    }
  }
  if (Status use = check_hessians(plan, options, solved, layers); !use) return use;
  if (weighed < layers) {
    plan.summary.notices.push_back(
        fmt::format("'{}' has importance for {} of {} layers; the errors of the others weigh alike",
                    options.importance.string(), weighed, layers));
  }
  if (const auto& idle = importance.value().idle(); !idle.empty()) {
    plan.summary.notices.push_back(fmt::format(
        "'{}': {} of its vectors {} no layer of the model, the first {}; check the spelling",
        options.importance.string(), idle.size(), idle.size() == 1 ? "names" : "name",
        in_quotes(idle.front())));
  }
  return success();
}

void tell_idle_adapters(ModelPlan& plan, const QuantizeModelOptions& options) {
  for (const LoraUse& use : options.lora) {
    if (use.weight != 0) continue;
    plan.summary.notices.push_back(
        fmt::format("the adapter '{}' times 0 adds nothing", use.path.string()));
  }
}

// Patterns that name what stays as it is anyway, if there were such a thing: recipe.hpp lets them
// pass.
Status tell_idle_patterns(ModelPlan& plan, const QuantizeModelOptions& options) {
  const auto is_match = [](const Pattern& pattern, const TensorEntry& tensor) {
    return pattern.matches(tensor.name) || pattern.matches(module_of(tensor.name));
  };
  for (const std::string& text : options.ignore) {
    const auto pattern = Pattern::parse(text);
    if (!pattern) return pattern.failure();
    bool used = std::any_of(plan.tensors.begin(), plan.tensors.end(), [&](const auto& tensor) {
      return is_match(pattern.value(), *tensor.entry);
    });
    for (const ModelShard& stray : plan.model.strays) {
      for (const TensorEntry& entry : stray.header.tensors)
        used |= is_match(pattern.value(), entry);
    }
    if (used) continue;
    plan.summary.notices.push_back(fmt::format(
        "--ignore {} matches nothing; what has such a name is kept in any case", in_quotes(text)));
  }
  return success();
}

// A cast where there is nothing to be cast.
void tell_idle_cast(ModelPlan& plan, const QuantizeModelOptions& options) {
  if (!options.keep_codes->cast) return;
  for (const ShardPlan& shard : plan.shards) {
    for (const QuantizedMatrix& matrix : shard.matrices) {
      if (matrix.kept && matrix.kept->cast()) return;
    }
  }
  plan.summary.notices.push_back("no weight is MXFP4, so --to-nvfp4 changes nothing");
}

}  // namespace

Status check_idle_options(ModelPlan& plan, const QuantizeModelOptions& options) {
  if (options.keep_codes) {
    tell_idle_cast(plan, options);
    return success();
  }
  if (formats_in(plan).empty()) return success();  // refused, for what it is
  if (Status experts = check_experts(plan, options); !experts) return experts;
  if (!options.budget.given()) {  // else options are for whatever formats are chosen
    if (Status rules = check_rules(plan, options); !rules) return rules;
    if (Status activations = check_activations(plan, options); !activations) return activations;
  }
  tell_idle_adapters(plan, options);
  if (options.allow_incomplete && options.container == Container::gguf) {
    plan.summary.notices.push_back(
        "--allow-incomplete has no effect: GGUF files are not searched for lost layers here");
  }
  if (Status patterns = tell_idle_patterns(plan, options); !patterns) return patterns;
  return check_importance(plan, options);
}

}  // namespace microscale
