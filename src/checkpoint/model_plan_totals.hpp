// What a plan comes to in bytes: of tensors before and after, and of room on the disk.
#pragma once

#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// Fills in the totals of the plan's summary. What an interrupted run holds counts as free, if
/// options.resume.
Status add_totals(ModelPlan& plan, const QuantizeModelOptions& options);

}  // namespace microscale
