// A GGUF file made of a GGUF file: weights of layers in new blocks, all other tensors and the
// metadata as they are.
#pragma once

#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// As make_model_plan, of options whose container is gguf. The plan has one file: parts of a split
/// file become one. Every tensor of the input is in the plan, in the order of the files.
Result<ModelPlan> plan_gguf_output(const QuantizeModelOptions& options);

}  // namespace microscale
