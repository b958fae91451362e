// config.json against the tensors: a loader builds the layers the config describes and then looks
// for exactly their tensors.
#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/classifier.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/module_match.hpp"
#include "checkpoint/quantization_config.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

constexpr const char* config_name = "config.json";
constexpr const char* modelopt_name = "hf_quant_config.json";

class ConfigCheck {
 public:
  ConfigCheck(const QuantizedFolder& folder, const QuantizationConfig& config, Findings& findings)
      : folder_(folder), config_(config), expectations_(config), findings_(findings) {}

  void run() {
    for (const std::string& problem : config_.problems) {
      report(Severity::error, "config", config_name, "", problem);
    }
    const std::string& dtype = config_.model_dtype;
    if (config_.method == "compressed-tensors" && !dtype.empty() && dtype != "bfloat16") {
      report(
          Severity::warning, "model-dtype", config_name, "",
          fmt::format("the model's type is {}, but transformers decompresses weights to bfloat16 "
                      "and multiplies them by inputs of the model's type; set torch_dtype to "
                      "bfloat16",
                      in_quotes(dtype)));
    }
    for (const std::string& entry : expectations_.not_understood()) {
      report(Severity::warning, "config-not-checked", config_name, "",
             fmt::format(
                 "the entry {} of targets or ignore cannot be judged from the tensors alone, so "
                 "modules it may mean are not checked against it",
                 in_quotes(entry)));
    }
    if (folder_.modules.empty() && folder_.unusable.empty() && !config_.groups.empty()) {
      report(Severity::error, "config-without-tensors", config_name, "",
             "it describes a quantized model, but no tensor is quantized; remove "
             "quantization_config or "
             "convert the model again");
      return;
    }
    for (const QuantizedModule& module : folder_.modules) check_module(module);
    check_dense();
  }

 private:
  void report(Severity severity, std::string_view rule, std::string_view file,
              std::string_view tensor, const std::string& text) {
    findings_.push_back(make_finding(severity, rule, file, tensor, text));
  }

  void report_module(std::string_view rule, const QuantizedModule& module,
                     const std::string& text) {
    report(Severity::error, rule, folder_.file_of(*module.codes), module.name, text);
  }

  void check_module(const QuantizedModule& module) {
    const Expectation expected = expectations_.of(module.name, true);
    if (expected.ignored) {
      report_module(
          "quantized-but-ignored", module,
          "the module is quantized although config.json ignores it, so loaders will not find "
          "its weight; take it off quantization_config.ignore or convert the model again");
      return;
    }
    if (expected.quantized == Match::no) {
      report_module(
          "quantized-but-not-targeted", module,
          "the module is quantized but no group of config.json targets it, so loaders will not "
          "find its weight; add it to the targets or convert the model again");
      return;
    }
    if (!expected.group) return;
    if (expected.group->format != module.format) {
      report_module(
          "format-mismatch", module,
          fmt::format("its tensors are {} but config.json ({}) says {}; make them agree or "
                      "convert the model again",
                      info(module.format).name, expected.group->name,
                      info(expected.group->format).name));
    }
    check_names(module);
    check_input_scale(module, *expected.group);
  }

  // compressed-tensors and ModelOpt call the same things differently.
  void check_names(const QuantizedModule& module) {
    const bool packed_name = module.codes->name().ends_with(".weight_packed");
    const bool wants_packed =
        config_.method == "compressed-tensors" && info(module.format).code_bits == 4;
    if (packed_name == wants_packed) return;
    report_module(
        "wrong-names", module,
        fmt::format("its codes are called {}, but loaders of '{}' look for {}; rename them or "
                    "convert the model again",
                    packed_name ? "weight_packed" : "weight", config_.method,
                    wants_packed ? "weight_packed" : "weight"));
  }

  void check_input_scale(const QuantizedModule& module, const QuantizationGroup& group) {
    if (group.static_activations && !module.input_scale) {
      report_module(
          "missing-input-scale", module,
          "config.json asks for quantized activations, but the module has no input scale, "
          "which some loaders take for zero; calibrate it or set input_activations to null");
    }
    if (!group.static_activations && module.input_scale) {
      report_module(
          "extra-tensor", module,
          fmt::format("{} is stored, but config.json asks for no stored activation scale, so "
                      "strict loaders refuse it; remove it or describe the activations",
                      in_quotes(module.input_scale->name())));
    }
  }

  // Linear layers left dense must be on the ignore list.
  void check_dense() {
    const Classifier classifier = take(classify_model(folder_.model));
    for (const LogicalTensor& tensor : folder_.tensors) {
      if (tensor.module || !tensor.name.ends_with(".weight")) continue;
      if (!dense_type(tensor.stored->entry->type) ||
          !classifier.judge(*tensor.stored->entry).linear) {
        continue;
      }
      if (expectations_.of(module_of(tensor.name), true).quantized != Match::yes) continue;
      report(
          Severity::error, "dense-but-expected", folder_.file_of(*tensor.stored), tensor.name,
          "the weight is not quantized although config.json targets its layer, so loaders look for "
          "codes and scales; add the layer to quantization_config.ignore or convert the model "
          "again");
    }
  }

  const QuantizedFolder& folder_;
  const QuantizationConfig& config_;
  ModuleExpectations expectations_;
  Findings& findings_;
};

}  // namespace

void verify_config(const QuantizedFolder& folder, Findings& findings) {
  // One file by itself need not hold what config.json describes.
  if (!folder.model.config_text || !folder.model.whole_folder) return;
  const auto config = parse_quantization_config(*folder.model.config_text);
  if (!config) {
    findings.push_back(make_finding(Severity::error, "config", config_name, "",
                                    config.failure().message + "; convert the model again"));
    return;
  }
  if (config.value()) {
    ConfigCheck(folder, *config.value(), findings).run();
    return;
  }
  if (folder.modules.empty() && folder.unusable.empty()) return;
  const auto& files = folder.model.other_files;
  if (std::find(files.begin(), files.end(), modelopt_name) != files.end()) {
    findings.push_back(
        make_finding(Severity::warning, "config-not-checked", modelopt_name, "",
                     "config.json leaves the description of the quantization to this file, "
                     "which is not checked"));
  } else {
    findings.push_back(make_finding(Severity::error, "no-quantization-config", config_name, "",
                                    "it has no quantization_config although tensors are quantized, "
                                    "so loaders will not find the "
                                    "weights; convert the model again"));
  }
}

}  // namespace microscale
