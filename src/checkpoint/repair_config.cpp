#include "checkpoint/repair_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>

#include "checkpoint/compressed_tensors.hpp"
#include "checkpoint/config_json.hpp"
#include "checkpoint/fused_groups.hpp"
#include "checkpoint/ignore_list.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/module_match.hpp"
#include "checkpoint/quantization_places.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

// The tensors as a converter would have treated them, so that its ignore list is theirs.
std::vector<std::string> fitting_ignore_list(const QuantizedFolder& folder) {
  const Classifier classifier = take(classify_model(folder.model));
  std::deque<TensorEntry> weights;  // of quantized modules, as they were
  std::vector<TensorTreatment> treatments;
  const auto add = [&](const TensorEntry& entry, Treatment what, const Verdict& verdict) {
    TensorTreatment& treatment = treatments.emplace_back();
    treatment.entry = &entry;
    treatment.verdict = verdict;
    treatment.decision.treatment = what;
    treatment.decision.linear = verdict.linear;
  };
  for (const LogicalTensor& tensor : folder.tensors) {
    if (tensor.stored) {
      const Verdict verdict = classifier.judge(*tensor.stored->entry);
      const bool codes = verdict.kind == TensorKind::quantized;
      add(*tensor.stored->entry, codes ? Treatment::quantize : Treatment::copy, verdict);
      continue;
    }
    weights.push_back({tensor.name, StoredType::bf16, tensor.shape, 0, 0});
    add(weights.back(), Treatment::quantize, classifier.judge(weights.back()));
  }
  return ignored_modules(treatments);
}

// Entries of the old list that do no harm stay: they may name what no tensor shows.
void keep_harmless(const QuantizedFolder& folder, const QuantizationConfig& config,
                   std::vector<std::string>& list) {
  for (const std::string& entry : config.ignore) {
    const ModuleList alone({entry}, false);
    const bool harms = std::any_of(
        folder.modules.begin(), folder.modules.end(), [&](const QuantizedModule& module) {
          const auto fused = fused_name_of(module.name);
          return alone.names(module.name) || (fused && alone.names(*fused));
        });
    if (harms || std::find(list.begin(), list.end(), entry) != list.end()) continue;
    list.push_back(entry);
  }
  std::sort(list.begin(), list.end());
}

bool concerns(const Findings& findings, std::initializer_list<std::string_view> rules) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.severity == Severity::error &&
           std::find(rules.begin(), rules.end(), finding.rule) != rules.end();
  });
}

// One format and the names of compressed-tensors: then the description follows from the tensors.
std::optional<Format> plain_format(const QuantizedFolder& folder) {
  if (folder.modules.empty() || !folder.other_modules().empty() || !folder.unusable.empty())
    return {};
  const Format format = folder.modules.front().format;
  for (const QuantizedModule& module : folder.modules) {
    const bool packed = module.codes->name().ends_with(".weight_packed");
    if (module.format != format || packed != (info(format).code_bits == 4)) return {};
    if (module.input_scale) return {};
  }
  return format;
}

bool quantizes_inputs(const std::optional<Description>& description) {
  if (!description) return false;
  const auto& groups = description->config.groups;
  return std::any_of(groups.begin(), groups.end(),
                     [](const QuantizationGroup& group) { return group.quantized_activations; });
}

}  // namespace

Result<std::string> repaired_config(const QuantizedFolder& folder,
                                    std::vector<std::string>& changes) {
  Findings findings;
  const auto description = read_description(folder, findings);
  verify_config(folder, description ? &*description : nullptr, findings);
  if (description) verify_kept(folder, &description->config, findings);
  const bool list =
      concerns(findings, {"quantized-but-ignored", "dense-but-expected", "fused-name-ignored"});
  const bool whole = concerns(findings, {"config", "format-mismatch", "no-quantization-config",
                                         "quantized-but-not-targeted"});
  if (!list && !whole) return std::string();
  if (description && description->config.is_modelopt()) return std::string();
  Json config = Json::object();
  if (folder.model.config_text) config = take(parse_config(*folder.model.config_text));
  std::vector<std::string> ignore = fitting_ignore_list(folder);
  if (description) keep_harmless(folder, description->config, ignore);
  const auto format = plain_format(folder);
  if (whole && format) {
    const Json* old = find_quantization(config);
    const Json* scheme = old && old->is_object() ? member(*old, "kv_cache_scheme") : nullptr;
    const Json cache = scheme ? *scheme : Json();
    drop_quantization(config);
    const Inputs inputs =
        quantizes_inputs(description) && info(*format).e8m0_scale ? Inputs::dynamic : Inputs::dense;
    auto text = with_quantization_config(dump_config(config),
                                         LayerScheme(*weight_format_of(*format), inputs), ignore);
    if (!text) return text.failure();
    changes.push_back(
        fmt::format("described the {} weights in config.json anew", info(*format).name));
    if (cache.is_null()) return text;
    config = take(parse_config(text.value()));
    config["quantization_config"]["kv_cache_scheme"] = cache;
    return dump_config(config);
  }
  if (!list || !config.contains("quantization_config")) return std::string();
  config["quantization_config"]["ignore"] = ignore;
  changes.push_back(
      "wrote the ignore list of config.json anew, in the spellings that engines match");
  return dump_config(config);
}

}  // namespace microscale
