#include "checkpoint/joined_experts_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "checkpoint/joined_experts.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/model_facts.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

struct Family {
  std::string_view model_type;
  bool transposed;  // [experts, inputs, outputs]
  bool interleaved = false;
};

// Those of which transformers 5.23 makes no tensor of one for each expert (conversion_mapping.py).
// Of Qwen3-VL it takes either order, and the published models are transposed.
constexpr Family families[] = {{"gpt_oss", true, true},
                               {"openai_privacy_filter", true, true},
                               {"llama4", true},
                               {"llama4_text", true},
                               {"qwen3_vl_moe", true},
                               {"qwen3_vl_moe_text", true},
                               {"aria", true},
                               {"aria_text", true},
                               {"diffusion_gemma", false},
                               {"diffusion_gemma_text", false},
                               {"gemma4", false},
                               {"gemma4_text", false},
                               {"granitemoe", false},
                               {"granitemoe_swa", false},
                               {"granitemoehybrid", false},
                               {"granitemoeshared", false},
                               {"hy_v4", false},
                               {"mistral4", false},
                               {"muse_spark", false},
                               {"muse_spark_text", false},
                               {"zaya", false}};

// The same, and its tensors are not known here by their names or their order.
constexpr std::array<std::string_view, 8> odd_families{
    "dbrx",          "inkling_mm_model", "inkling_text", "inkling2",
    "inkling2_text", "jetmoe",           "step3p5",      "step3p7"};

}  // namespace

std::optional<ExpertName> expert_name_of(std::string_view tensor) {
  constexpr std::string_view bias = ".bias", weight = ".weight", experts = "experts";
  ExpertName name;
  name.bias = tensor.ends_with(bias);
  if (!name.bias && !tensor.ends_with(weight)) return std::nullopt;
  tensor.remove_suffix(name.bias ? bias.size() : weight.size());
  const auto found =
      std::find(expert_projections.begin(), expert_projections.end(), leaf_of(tensor));
  if (found == expert_projections.end()) return std::nullopt;
  name.projection = static_cast<std::size_t>(found - expert_projections.begin());
  const std::string_view of_expert = parent_of(tensor), digits = leaf_of(of_expert);
  name.module = parent_of(of_expert);
  if (leaf_of(name.module) != experts) return std::nullopt;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), name.expert);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (digits != std::to_string(name.expert) || name.expert < 0) return std::nullopt;
  return name;
}

std::optional<ExpertLayout> joined_layout_of(std::string_view model_type) {
  const auto found =
      std::find_if(std::begin(families), std::end(families),
                   [&](const Family& family) { return family.model_type == model_type; });
  if (found == std::end(families)) return std::nullopt;
  ExpertLayout layout;
  layout.transposed = found->transposed;
  layout.interleaved = found->interleaved;
  return layout;
}

std::optional<std::string> experts_left_apart(const QuantizedFolder& folder) {
  const auto facts = read_model_facts(folder.model.config_text.value_or("{}"));
  if (!facts) return std::nullopt;
  for (const std::string& type : {facts.value().model_type, facts.value().text_model_type}) {
    if (!is_one_of(type, odd_families)) continue;
    for (const LogicalTensor& tensor : folder.tensors) {
      if (!expert_name_of(tensor.name)) continue;
      return fmt::format(
          "{} and the other experts stay one by one, but transformers reads those of {} from one "
          "tensor for each layer, whose order is not known here: it would fill them at random; put "
          "them together as that model's code has them",
          in_quotes(tensor.name), in_quotes(type));
    }
  }
  return std::nullopt;
}

}  // namespace microscale
