#include "checkpoint/loader_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "checkpoint/config_json.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/quantization_places.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* config_name = "config.json";

bool empty_value(const Json* value) { return !value || value->empty(); }

// Where a transform is applied: those of weights are part of the stored weights already.
bool in_weights(const Json& use) {
  const std::string location = use.is_object() ? text_member(use, "location") : std::string();
  return location == "weight_input" || location == "weight_output";
}

// "R1" of a transform that loaders apply while the model runs; of one that is not understood, its
// name too.
std::optional<std::string> online_transform(const Json& description) {
  const Json* transforms = member(description, "transform_config");
  if (empty_value(transforms)) return std::nullopt;
  const Json* groups = transforms->is_object() ? member(*transforms, "config_groups") : nullptr;
  if (!groups || !groups->is_object()) return "transform_config";
  for (const auto& [name, group] : groups->items()) {
    const Json* uses = group.is_object() ? member(group, "apply") : nullptr;
    if (!uses || !uses->is_array() || !std::all_of(uses->begin(), uses->end(), in_weights)) {
      return name;
    }
  }
  return std::nullopt;
}

class StepFinder {
 public:
  StepFinder(const ModelFolder& model, Findings& findings) : model_(model), findings_(findings) {}

  void find() {
    const auto config = parsed();
    if (config) look_at(*config);
    Kind scaled{".pre_quant_scale", "AWQ",
                "inputs of the layer are to be multiplied by it before they are quantized, which "
                "decoded weights leave out"};
    Kind low_rank{"svdquant_lora_a", "SVD",
                  "a low-rank part of the layer, which is to be added to what its weight gives"};
    Kind low_rank_b{"svdquant_lora_b", "SVD", low_rank.text};
    Kind order{".weight_g_idx", "",
               "an order of the columns, which formats with blocks of neighbours do not have"};
    for (Kind* kind : {&scaled, &low_rank, &low_rank_b, &order}) find_kind(*kind);
  }

 private:
  struct Kind {
    std::string_view ending;
    std::string_view algorithm;  // of ModelOpt, in whose name it stands; empty: none has it
    const char* text;
  };

  std::optional<Json> parsed() const {
    if (!model_.config_text || !model_.whole_folder) return std::nullopt;
    auto config = parse_config(*model_.config_text);
    if (!config || !config.value().is_object()) return std::nullopt;
    return std::move(config.value());
  }

  void look_at(const Json& config) {
    const Json* description = find_quantization(config);
    if (!description || !description->is_object()) return;
    if (const auto name = online_transform(*description)) {
      findings_.push_back(make_finding(
          Severity::warning, "not-decoded", config_name, "",
          fmt::format("transform_config has loaders rotate values while the model runs ({}), which "
                      "compressed-tensors and vLLM do and other engines may not",
                      in_quotes(*name))));
    }
    const Json* own = member(*description, "quantization");
    const Json& place = own && own->is_object() ? *own : *description;
    algorithm_ = text_member(place, "quant_algo");
    if (algorithm_.empty() && member(place, "quantized_layers")) {
      algorithm_ = member(place, "quantized_layers")->dump();
    }
  }

  void find_kind(const Kind& kind) {
    const ModelTensor* first = nullptr;
    std::size_t count = 0;
    for (const ModelTensor& tensor : model_.tensors) {
      if (!tensor.name().ends_with(kind.ending) || !belongs(tensor, kind)) continue;
      if (count++ == 0) first = &tensor;
    }
    if (!first) return;
    const bool known =
        !kind.algorithm.empty() && algorithm_.find(kind.algorithm) != std::string::npos;
    const std::string more = count > 1 ? fmt::format(" ({} more)", count - 1) : "";
    findings_.push_back(make_finding(
        known ? Severity::warning : Severity::error, known ? "not-decoded" : "extra-tensor",
        model_.shards[first->shard].name, first->name(),
        fmt::format(
            "{}{}{}", kind.text,
            known ? "" : "; no loader of this description reads it: quantize the model again",
            more)));
  }

  // An order of columns is right beside the integers of other formats.
  bool belongs(const ModelTensor& tensor, const Kind& kind) const {
    if (!kind.algorithm.empty()) return true;
    const std::string module = tensor.name().substr(0, tensor.name().size() - kind.ending.size());
    const ModelTensor* codes = model_.find(module + ".weight_packed");
    const ModelTensor* scales = model_.find(module + ".weight_scale");
    return codes && scales && codes->entry->type == StoredType::u8 &&
           bits_per_element(scales->entry->type) == 8;
  }

  const ModelFolder& model_;
  Findings& findings_;
  std::string algorithm_;
};

// "sparse-24-bitmask" of a model that is sparse as well; verify has it from the description.
std::optional<std::string> sparsity_of(const ModelFolder& model) {
  if (!model.config_text || !model.whole_folder) return std::nullopt;
  const auto config = parse_config(*model.config_text);
  if (!config || !config.value().is_object()) return std::nullopt;
  const Json* description = find_quantization(config.value());
  if (!description || !description->is_object()) return std::nullopt;
  const Json* sparsity = member(*description, "sparsity_config");
  if (empty_value(sparsity) || !sparsity->is_object()) return std::nullopt;
  const std::string format = text_member(*sparsity, "format");
  return format == "dense" ? std::nullopt : std::optional(format);
}

}  // namespace

Findings find_loader_steps(const ModelFolder& model) {
  Findings findings;
  StepFinder(model, findings).find();
  return findings;
}

Status refuse_loader_steps(const ModelFolder& model, std::string_view command) {
  std::string text;
  const Findings steps = find_loader_steps(model);
  if (!steps.empty()) {
    text = steps.front().message;
  } else if (const auto sparsity = sparsity_of(model)) {
    text = fmt::format(
        "sparsity_config of config.json says that weights are sparse ({}), which is "
        "not decoded here",
        in_quotes(*sparsity));
  } else {
    return success();
  }
  return Failure{ErrorCode::bad_input,
                 fmt::format("{}: '{}': {}; its decoded weights would be another model, so start "
                             "from the full-precision one",
                             command, model.opened.string(), text)};
}

}  // namespace microscale
