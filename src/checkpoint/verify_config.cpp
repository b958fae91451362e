// config.json against the tensors: a loader builds the layers the config describes and then looks
// for exactly their tensors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "checkpoint/classifier.hpp"
#include "checkpoint/first_codes.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/model_facts.hpp"
#include "checkpoint/modelopt_config.hpp"
#include "checkpoint/module_match.hpp"
#include "checkpoint/quantization_config.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/verify_config_method.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

constexpr const char* config_name = "config.json";
constexpr std::uint64_t largest_modelopt_file = 64 << 20;  // bytes
// Methods of others, whose tensors are not decoded here.
constexpr std::array<std::string_view, 16> other_methods{
    "fp8", "mxfp4",    "quark",     "awq",    "gptq",    "bitsandbytes", "fbgemm_fp8", "auto-round",
    "hqq", "fp_quant", "auto_gptq", "quanto", "torchao", "eetq",         "aqlm",       "mlx"};

Finding bad_config(const char* file, const std::string& text) {
  return make_finding(Severity::error, "config", file, "", text);
}

Finding dense_after_all(const std::string& method) {
  return make_finding(
      Severity::warning, "config-without-tensors", config_name, "",
      fmt::format(
          "it says that {} quantized the model, but no tensor is quantized, so loaders look "
          "for what is not there; if the weights are dense, remove quantization_config",
          in_quotes(method)));
}

Finding not_read_here(const QuantizedFolder& folder, const std::string& method) {
  return make_finding(
      Severity::warning, "config-not-checked", config_name, "",
      folder.quantized()
          ? fmt::format("its quantization_config is that of {}, which is not held against the "
                        "tensors; codes and scales are checked",
                        in_quotes(method))
          : fmt::format("the model is quantized by {}, whose tensors are not decoded here: headers "
                        "and dense values are checked, codes and scales are not",
                        in_quotes(method)));
}

// A method of another tool is no mistake where nothing contradicts it.
void report_unreadable(const QuantizedFolder& folder, const Failure& failure, Findings& findings) {
  const auto facts = read_model_facts(*folder.model.config_text);
  const std::string method = facts && facts.value().quantized_by ? *facts.value().quantized_by : "";
  if (const auto weight = of_another_method(folder, method)) {
    findings.push_back(make_finding(
        Severity::error, "format-mismatch", config_name, "",
        fmt::format("it says that {} quantized the model, but {}; make them agree or convert the "
                    "model again",
                    in_quotes(method), *weight)));
    return;
  }
  if (is_gpt_oss(folder, method)) return;
  const bool other =
      std::find(other_methods.begin(), other_methods.end(), method) != other_methods.end();
  // These methods' weights are decoded by what the tensors show.
  constexpr std::array<std::string_view, 4> decoded{"fp8", "fbgemm_fp8", "mxfp4", "quark"};
  const bool fits =
      folder.modules.empty() || std::find(decoded.begin(), decoded.end(), method) != decoded.end();
  if (failure.code != ErrorCode::unsupported || !other || !fits) {
    findings.push_back(bad_config(config_name, failure.message + "; convert the model again"));
    return;
  }
  findings.push_back(first_codes(folder) ? not_read_here(folder, method) : dense_after_all(method));
}

bool has_bad_config(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.rule == "config" || finding.rule == "config-not-checked" ||
           finding.rule == "config-without-tensors" || finding.rule == "format-mismatch";
  });
}

std::set<std::string> schemes_of(const QuantizationConfig& config) {
  std::set<std::string> schemes;
  for (const QuantizationGroup& group : config.groups) schemes.insert(group.scheme);
  return schemes;
}

void describe_foreign(const QuantizedFolder& folder, Findings& findings) {
  std::map<std::string, std::vector<const ForeignModule*>> schemes;
  for (const ForeignModule& module : folder.foreign) schemes[module.scheme].push_back(&module);
  for (const auto& [scheme, modules] : schemes) {
    const ForeignModule& first = *modules.front();
    findings.push_back(make_finding(
        Severity::warning, "not-decoded", folder.file_of(*first.codes), first.name,
        fmt::format("the module{} {} {}, which is not decoded here: names and types are checked, "
                    "codes and scales are not",
                    modules.size() > 1 ? fmt::format(" and {} more", modules.size() - 1) : "",
                    modules.size() > 1 ? "are" : "is", scheme)));
  }
}

// The first layer that one of two descriptions has quantized and the other has not.
std::optional<std::string> first_difference(const QuantizedFolder& folder,
                                            const QuantizationConfig& one,
                                            const QuantizationConfig& other) {
  const ModuleExpectations first(one), second(other);
  const Classifier classifier = take(classify_model(folder.model));
  for (const LogicalTensor& tensor : folder.tensors) {
    if (!tensor.name.ends_with(".weight") || tensor.shape.size() != 2) continue;
    const TensorEntry dense{tensor.name, StoredType::bf16, tensor.shape};
    if (!tensor.coded() && !classifier.judge(dense).linear) continue;
    const std::string module(module_of(tensor.name));
    const Match a = first.of(module, true).quantized, b = second.of(module, true).quantized;
    if (a != b && a != Match::unknown && b != Match::unknown) return module;
  }
  return std::nullopt;
}

class ConfigCheck {
 public:
  ConfigCheck(const QuantizedFolder& folder, const Description& description, Findings& findings)
      : folder_(folder),
        file_(description.file),
        config_(description.config),
        expectations_(config_),
        findings_(findings) {}

  void run() {
    for (const std::string& problem : config_.problems) {
      report(Severity::error, "config", file_, "", problem);
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
      report(Severity::warning, "config-not-checked", file_, "",
             fmt::format(
                 "the entry {} of targets or ignore cannot be judged from the tensors alone, so "
                 "modules it may mean are not checked against it",
                 in_quotes(entry)));
    }
    if (!folder_.quantized() && folder_.unusable.empty() && folder_.foreign.empty() &&
        !config_.groups.empty()) {
      report(Severity::error, "config-without-tensors", file_, "",
             "it describes a quantized model, but no tensor is quantized; remove "
             "quantization_config or "
             "convert the model again");
      return;
    }
    for (const QuantizedModule& module : folder_.modules) check_module(module);
    for (const ForeignModule& module : folder_.other_modules()) check_foreign(module);
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
    if (expected.group->format != module.format) check_rival(module, expected);
    check_names(module);
    check_global_scale(module);
    check_input_scale(module, *expected.group);
  }

  // Another group than the one that loaders take may be the one that was meant.
  void check_rival(const QuantizedModule& module, const Expectation& expected) {
    const bool meant = expected.rival && expected.rival->format == module.format;
    report_module(
        "format-mismatch", module,
        fmt::format("its tensors are {} but {} ({}) says {}; {}", info(module.format).name, file_,
                    expected.group->name, expected.group->scheme,
                    meant
                        ? fmt::format("{} says {} too but comes later, and loaders differ in which "
                                      "they take; let one of them name it",
                                      expected.rival->name, info(module.format).name)
                        : "make them agree or convert the model again"));
  }

  // Of a layer that is not decoded here: whether the config says so too.
  void check_foreign(const ForeignModule& module) {
    const Expectation expected = expectations_.of(module.name, true);
    const auto report_foreign = [&](std::string_view rule, const std::string& text) {
      report(Severity::error, rule, folder_.file_of(*module.codes), module.name, text);
    };
    if (expected.ignored) {
      // So `quantize --ignore` leaves what a user knows to be no weight.
      report(
          Severity::warning, "quantized-but-ignored", folder_.file_of(*module.codes), module.name,
          fmt::format("the module is {} although {} ignores it, so loaders take its codes for the "
                      "weight; take it off the ignore list",
                      module.scheme, file_));
    } else if (expected.quantized == Match::no) {
      report_foreign("quantized-but-not-targeted",
                     fmt::format("the module is {} but no group of {} targets it, so loaders will "
                                 "not find its weight; add it to the targets",
                                 module.scheme, file_));
    } else if (expected.group && contradicts(*expected.group, module) &&
               !(expected.rival && !contradicts(*expected.rival, module))) {
      report_foreign(
          "format-mismatch",
          fmt::format("its tensors are {} but {} ({}) says {}; make them agree", module.scheme,
                      file_, expected.group->name, expected.group->scheme));
    } else if (expected.group && expected.group->static_activations &&
               !folder_.model.find(module.name + ".input_scale")) {
      report_foreign(
          "missing-input-scale",
          fmt::format("{} asks for activations with a stored scale, but the module has none, which "
                      "some loaders take for zero; calibrate it or set input_activations to null",
                      file_));
    }
  }

  // Formats that are decoded here are no foreign ones; of the others FP8 is told from integers.
  static bool contradicts(const QuantizationGroup& group, const ForeignModule& module) {
    constexpr std::string_view fp8 = "FP8", integers = "INT";
    if (group.format) return true;
    return module.scheme.starts_with(fp8) ? group.scheme.starts_with(integers)
                                          : group.scheme.starts_with(fp8);
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

  // transformers makes a vector of one element and compares shapes.
  void check_global_scale(const QuantizedModule& module) {
    if (!module.stores_divisor || !module.global_scale->entry->shape.empty()) return;
    report(
        Severity::error, "wrong-shape", folder_.file_of(*module.global_scale),
        module.global_scale->name(),
        "a global scale of compressed-tensors is F32 [1], this is F32 []; give it one dimension, "
        "or convert the model again");
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
      if (tensor.coded() || !tensor.name.ends_with(".weight")) continue;
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
  const char* file_;
  const QuantizationConfig& config_;
  ModuleExpectations expectations_;
  Findings& findings_;
};

}  // namespace

std::optional<Description> read_description(const QuantizedFolder& folder, Findings& findings) {
  const ModelFolder& model = folder.model;
  // One file by itself need not hold what config.json describes.
  if (!model.whole_folder) return std::nullopt;
  std::optional<Description> modelopt;
  const auto& files = model.other_files;
  if (std::find(files.begin(), files.end(), modelopt_file) != files.end()) {
    auto text = read_small_file(model.root / modelopt_file, largest_modelopt_file);
    auto config = text ? parse_modelopt_file(text.value()) : text.failure();
    if (config) {
      modelopt = Description{modelopt_file, std::move(config.value())};
    } else {
      findings.push_back(bad_config(modelopt_file, config.failure().message + "; mend it"));
    }
  }
  if (!model.config_text) return modelopt;
  auto config = parse_quantization_config(*model.config_text);
  if (!config) {
    report_unreadable(folder, config.failure(), findings);
    return std::nullopt;
  }
  if (!config.value()) return modelopt;
  if (modelopt && schemes_of(modelopt->config) != schemes_of(*config.value())) {
    findings.push_back(bad_config(
        modelopt_file,
        fmt::format("it describes {} where config.json describes {}, and loaders read one or the "
                    "other; make them agree",
                    fmt::join(schemes_of(modelopt->config), " and "),
                    fmt::join(schemes_of(*config.value()), " and "))));
  }
  const bool alike = modelopt && schemes_of(modelopt->config) == schemes_of(*config.value());
  if (alike) {
    for (const std::string& problem : modelopt->config.problems) {
      // What it lacks config.json says.
      if (problem.find(" is missing") != std::string::npos) continue;
      findings.push_back(bad_config(modelopt_file, problem));
    }
    if (const auto layer = first_difference(folder, modelopt->config, *config.value())) {
      findings.push_back(bad_config(
          modelopt_file, fmt::format("of it and config.json one has {} quantized and the other "
                                     "leaves it out, and loaders read one or the other; make them "
                                     "agree",
                                     in_quotes(*layer))));
    }
  }
  return Description{config_name, std::move(*config.value())};
}

void verify_config(const QuantizedFolder& folder, const Description* description,
                   Findings& findings) {
  describe_foreign(folder, findings);
  if (description) {
    ConfigCheck(folder, *description, findings).run();
    return;
  }
  // An unreadable description is a finding already.
  if (!folder.model.config_text || !folder.model.whole_folder || has_bad_config(findings)) return;
  const auto facts = read_model_facts(*folder.model.config_text);
  if (facts && facts.value().quantized_by && folder.modules.empty()) {
    const std::string& method = *facts.value().quantized_by;
    if (is_gpt_oss(folder, method)) return;
    findings.push_back(first_codes(folder) ? not_read_here(folder, method)
                                           : dense_after_all(method));
    return;
  }
  const auto mark = first_codes(folder);
  if (!mark && folder.unusable.empty()) return;
  findings.push_back(make_finding(
      Severity::error, "no-quantization-config", config_name, "",
      fmt::format("it has no quantization_config although tensors are quantized{}, so loaders will "
                  "not find the weights; convert the model again",
                  mark ? " (" + *mark + ")" : "")));
}

}  // namespace microscale
