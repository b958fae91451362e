// A single file of ComfyUI: which layers of its family stay, and what of a folder does not go into
// it.
#pragma once

#include "checkpoint/model_plan.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// Of a plan whose treatments are decided: all tensors go into one file, options.output; layers
/// that the model's family keeps stay (but for those that an --include without wildcards names),
/// and notices say so. Files beside the model are not taken along.
void plan_comfyui_file(ModelPlan& plan, const QuantizeModelOptions& options);

}  // namespace microscale
