// What is quantized and should not be: embeddings and norms, which no loader decodes; routers,
// prediction layers and tied heads, which engines keep dense or which cost more than they save.
// What a calibration left behind. And ignore lists that take the fused name of layers that are
// quantized.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "checkpoint/classifier.hpp"
#include "checkpoint/config_json.hpp"
#include "checkpoint/containers/containers.hpp"
#include "checkpoint/fused_groups.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/module_match.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

bool ties_embeddings(const ModelFolder& model) {
  if (!model.config_text) return false;
  const auto config = parse_config(*model.config_text);
  if (!config || !config.value().is_object()) return false;
  const auto* tied = member(config.value(), "tie_word_embeddings");
  const auto* inner = member(config.value(), "text_config");
  if (!tied && inner && inner->is_object()) tied = member(*inner, "tie_word_embeddings");
  return tied && tied->is_boolean() && tied->get<bool>();
}

class KeptCheck {
 public:
  /// `config`: null where how the model is quantized is not known, or it is dense.
  KeptCheck(const QuantizedFolder& folder, const QuantizationConfig* config, Findings& findings)
      : folder_(folder),
        findings_(findings),
        classifier_(take(classify_model(folder.model))),
        tied_(ties_embeddings(folder.model)) {
    if (config) ignore_.emplace(config->ignore, config->is_modelopt());
  }

  void run() {
    const bool described = ignore_.has_value();
    if (folder_.model.is_gguf) return;  // llama.cpp quantizes embeddings too
    for (const QuantizedModule& module : folder_.modules) {
      check(module.name, *module.codes, {module.rows, module.cols});
    }
    for (const ForeignModule& module : folder_.other_modules()) {
      check(module.name, *module.codes, {});
      foreign_.insert(module.name);
    }
    // What belongs to a method that is not read here is not known.
    if (!described && classifier_.facts().quantized_by) return;
    for (const LogicalTensor& tensor : folder_.tensors) {
      if (!tensor.stored) continue;
      check_leftover(*tensor.stored);
      if (described) check_lone_codes(*tensor.stored);
    }
  }

 private:
  void check(const std::string& module, const ModelTensor& codes, std::vector<std::int64_t> shape) {
    switch (classifier_.nature_of(module, shape)) {
      case Kept::embedding:
      case Kept::norm:
        return report(
            Severity::error, "quantized-embedding", module, codes,
            "an embedding or a norm is quantized, which loaders do not decode; convert the "
            "model again without it");
      case Kept::router:
      case Kept::indexer:
        return report(
            Severity::warning, "quantized-router", module, codes,
            "a router is quantized: it is small, and its errors send tokens to other experts; "
            "engines build it dense, so convert the model again without it");
      case Kept::prediction_layer:
        return report(
            Severity::warning, "quantized-draft", module, codes,
            "a layer of the draft is quantized: fewer of its tokens are accepted, which costs more "
            "than it saves; convert the model again without it");
      case Kept::output_head:
        if (!tied_) return;
        return report(
            Severity::warning, "quantized-tied-head", module, codes,
            "the head is quantized although config.json ties it to the embedding, so loaders take "
            "the embedding in its place; leave it dense or set tie_word_embeddings to false");
      default:
        return;
    }
  }

  void check_leftover(const ModelTensor& tensor) {
    const Verdict verdict = classifier_.judge(*tensor.entry);
    if (verdict.kind != TensorKind::leftover) return;
    const bool buffer = tensor.name().find("_quantizer.") != std::string::npos;
    if (!buffer && foreign_.contains(verdict.module)) return;
    report(Severity::error, "leftover-buffer", tensor.name(), tensor,
           "left over from a calibration and no part of the model, so strict loaders refuse it; "
           "`repair` takes it out");
  }

  // Codes that are a part of no quantized weight, under the name of a weight.
  void check_lone_codes(const ModelTensor& tensor) {
    const TensorEntry& entry = *tensor.entry;
    const Verdict verdict = classifier_.judge(entry);
    const bool told =
        std::any_of(folder_.unusable.begin(), folder_.unusable.end(), [&](const Finding& finding) {
          return finding.tensor == entry.name || finding.tensor == verdict.module;
        });
    if (verdict.kind != TensorKind::quantized || leaf_of(entry.name) != "weight" || told ||
        foreign_.contains(verdict.module) || (ignore_ && ignore_->names(verdict.module))) {
      return;
    }
    report(Severity::error, "unknown-format", entry.name, tensor,
           fmt::format("it is {}, which no loader takes for a weight ({}), and no scales belong to "
                       "it; convert the model again",
                       described(entry), to_string(*verdict.tool)));
  }

  void report(Severity severity, std::string_view rule, const std::string& module,
              const ModelTensor& codes, const std::string& text) {
    findings_.push_back(make_finding(severity, rule, folder_.file_of(codes), module, text));
  }

  const QuantizedFolder& folder_;
  Findings& findings_;
  Classifier classifier_;
  bool tied_;
  std::optional<ModuleList> ignore_;  // of config.json
  std::set<std::string> foreign_;     // modules, which may have scales of their inputs
};

// An engine asks its ignore list for the fused name as well, and then builds the layer dense.
void check_fused_names(const QuantizedFolder& folder, const QuantizationConfig& config,
                       Findings& findings) {
  const ModuleList ignore(config.ignore, config.is_modelopt());
  std::set<std::string> reported;
  for (const QuantizedModule& module : folder.modules) {
    const auto fused = fused_name_of(module.name);
    if (!fused || *fused == module.name || folder.find(*fused) || !ignore.names(*fused)) continue;
    if (ignore.names(module.name)) continue;        // a finding already
    if (!reported.insert(*fused).second) continue;  // once for all of a group
    findings.push_back(make_finding(
        Severity::error, "fused-name-ignored", folder.file_of(*module.codes), module.name,
        fmt::format("the module is quantized, but the ignore list takes {}, the layer that engines "
                    "make of it and its kin, so they will not find its weight; take that off the "
                    "list",
                    in_quotes(*fused))));
  }
}

}  // namespace

void verify_kept(const QuantizedFolder& folder, const QuantizationConfig* config,
                 Findings& findings) {
  KeptCheck(folder, config, findings).run();
  if (config) check_fused_names(folder, *config, findings);
}

}  // namespace microscale
