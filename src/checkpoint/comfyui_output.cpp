#include "checkpoint/comfyui_output.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/containers/comfyui_families.hpp"
#include "checkpoint/pattern.hpp"

namespace microscale {
namespace {

bool named_by(const std::vector<std::string>& include, const TensorTreatment& tensor) {
  return std::any_of(include.begin(), include.end(), [&](const std::string& text) {
    const auto pattern = Pattern::parse(text);
    return pattern && pattern.value().is_literal() &&
           (pattern.value().matches(tensor.verdict.module) ||
            pattern.value().matches(tensor.entry->name));
  });
}

void keep_layers(ModelPlan& plan, const ComfyUiFamily& family,
                 const std::vector<std::string>& include) {
  for (TensorTreatment& tensor : plan.tensors) {
    if (tensor.decision.treatment != Treatment::quantize || named_by(include, tensor)) continue;
    const std::string_view piece = kept_in_family(family, tensor.verdict.module);
    if (piece.empty()) continue;
    tensor.decision.treatment = Treatment::copy;
    tensor.decision.reason = fmt::format("{} is kept in {}", piece, family.name);
    tensor.decision.kept = Kept::outside;
    tensor.group.clear();
  }
}

}  // namespace

void plan_comfyui_file(ModelPlan& plan, const QuantizeModelOptions& options) {
  std::vector<std::string_view> names;
  for (const TensorTreatment& tensor : plan.tensors) names.push_back(tensor.entry->name);
  std::vector<std::string>& notices = plan.summary.notices;
  if (options.keep_codes) {
    // Which layers are quantized, the input has decided.
  } else if (const ComfyUiFamily* family = comfyui_family_of(names)) {
    keep_layers(plan, *family, options.include);
    notices.push_back(
        fmt::format("a {} model: the layers that stay are those of its family", family->name));
  } else {
    notices.push_back(fmt::format(
        "the model is none of the families of diffusion models known here ({}): which layers stay "
        "is decided by names and shapes; --dry-run lists them",
        comfyui_family_names()));
  }
  if (!plan.model.other_files.empty()) {
    notices.push_back(
        fmt::format("{} files beside the weights are not taken along: ComfyUI's "
                    "models are single files",
                    plan.model.other_files.size()));
  }
  plan.one_file = true;
  plan.model.other_files.clear();
  plan.model.made_files.clear();
  plan.model.index_name.clear();
  for (TensorTreatment& tensor : plan.tensors) tensor.shard = 0;
  plan.shards.emplace_back().name =
      options.output.empty() ? "model.safetensors" : options.output.filename().string();
}

}  // namespace microscale
