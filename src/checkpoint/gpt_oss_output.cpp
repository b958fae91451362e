#include "checkpoint/gpt_oss_output.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/fused_experts.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

Failure refuse(std::string message) {
  return {ErrorCode::unsupported, "quantize: " + std::move(message)};
}

// Nothing of a conversion that keeps codes is quantized, so experts have them or cannot be written.
Failure without_codes(const TensorTreatment& tensor) {
  const StoredWeight* weight = tensor.source->weight;
  return refuse(
      fmt::format("the weights of {} are {}, and gpt-oss's layout holds MXFP4 with the blocks "
                  "along the inputs; "
                  "`microscale quantize --format mxfp4 --container gpt-oss` quantizes them",
                  in_quotes(tensor.entry->name),
                  weight ? weight->facts().description : to_string(tensor.entry->type)));
}

bool is_weight_of_experts(const TensorTreatment& tensor) {
  return tensor.verdict.part && tensor.entry->shape.size() == 3;
}

Status check_layout(const TensorTreatment& tensor) {
  const ExpertLayout& layout = *tensor.experts;
  const bool gate_up = tensor.verdict.part == ExpertPart::gate_up;
  if (layout.transposed && (layout.interleaved || !gate_up)) return success();
  return refuse(
      fmt::format("{} does not lie as gpt-oss has it, [experts, inputs, outputs] with gate "
                  "and up in turn; write it as compressed-tensors",
                  in_quotes(tensor.entry->name)));
}

}  // namespace

Status plan_gpt_oss_experts(ModelPlan& plan, const QuantizeModelOptions& options,
                            const ModelFacts& facts) {
  if (options.container != Container::gpt_oss) return success();
  if (facts.model_type != "gpt_oss") {
    return refuse(
        fmt::format("the container gpt-oss is for gpt-oss and its fine-tunes, and config.json says "
                    "that the model is {}; write compressed-tensors, as by default",
                    facts.model_type.empty() ? "of no type" : in_quotes(facts.model_type)));
  }
  if (options.keep_codes) {
    bool any = false;
    for (const TensorTreatment& tensor : plan.tensors) {
      if (!is_weight_of_experts(tensor)) continue;
      if (tensor.decision.treatment != Treatment::split) return without_codes(tensor);
      any = true;
    }
    if (!any) return refuse("the model has no experts, and gpt-oss's layout is of these alone");
  }
  for (TensorTreatment& tensor : plan.tensors) {
    Decision& decision = tensor.decision;
    if (decision.treatment == Treatment::quantize) {
      decision.treatment = Treatment::copy;
      decision.reason = "no expert: gpt-oss has the rest in BF16";
      decision.kept = Kept::outside;
      tensor.group.clear();
    } else if (decision.treatment == Treatment::split) {
      if (Status lies = check_layout(tensor); !lies) return lies;
      const bool weights = tensor.entry->shape.size() == 3;
      decision.treatment = weights ? Treatment::quantize : Treatment::copy;
      decision.reason = weights ? "experts" : "bias of experts";
      tensor.group.clear();
    }
  }
  return success();
}

std::vector<MatrixSlice> stacked_slices(const TensorEntry& entry) {
  std::vector<MatrixSlice> slices;
  for (std::int64_t expert = 0; expert < entry.shape[0]; ++expert) {
    MatrixSlice slice;
    slice.module = std::string(module_of(entry.name));
    const std::string module = fmt::format("{}.{}.", experts_module_of(entry.name), expert);
    if (fused_expert_part(entry.name) == ExpertPart::gate_up) {
      slice.turns = {module + "gate_proj", module + "up_proj"};
    } else {
      slice.turns = {module + "down_proj"};
    }
    slice.rows = entry.shape[2];
    slice.cols = entry.shape[1];
    slice.first = expert * slice.rows * slice.cols;
    slice.row_step = 1;
    slice.col_step = slice.rows;
    slice.line = expert * slice.rows;
    slices.push_back(std::move(slice));
  }
  return slices;
}

}  // namespace microscale
