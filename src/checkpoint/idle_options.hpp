// Options that change nothing in a run: most likely a slip of the hand, or meant for another model.
#pragma once

#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// Looks at a plan whose tensors and matrices are settled. A failure names an option that asks for
/// what the run cannot give: an order of experts where there are none, a scale rule or a rounding
/// that no layer follows, dynamic activations of layers that have none. What may stand in a script
/// that converts many models, or covers some layers only, becomes a notice.
Status check_idle_options(ModelPlan& plan, const QuantizeModelOptions& options);

}  // namespace microscale
