// The layers that a budget chooses formats for, in the groups that get one format each, and how
// large each is in every format.
#pragma once

#include <vector>

#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"
#include "microscale/layer_formats.hpp"

namespace microscale {

struct ChoiceGroup {
  GroupFormats facts;              // errors are 0, or infinite for a line that it may not have
  std::vector<MatrixId> matrices;  // of the plan
  bool fixed = false;              // by --use: one line
};

/// The lines of a menu, then the formats of --use that it lacks, which are for those layers alone.
std::vector<MenuFormat> lines_of(const QuantizeModelOptions& options);

/// Of all matrices of a plan that was made without a choice, in their order. options.budget.menu is
/// not empty. A line is for a group if blocks and container allow it in each of its layers.
Result<std::vector<ChoiceGroup>> choice_groups(const ModelPlan& plan,
                                               const QuantizeModelOptions& options);

}  // namespace microscale
