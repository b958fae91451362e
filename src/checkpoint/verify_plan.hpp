// verify's rules on headers and config, asked of a conversion before its first byte: a folder that
// would not pass is not written.
#pragma once

#include "checkpoint/finding.hpp"
#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// What verify would say of the folder that the plan writes, as far as it does not depend on codes
/// and scales. Throws Error where an input file cannot be read.
Findings verify_plan(const ModelPlan& plan);

/// Success, or the first error of verify_plan.
Status check_plan(const ModelPlan& plan);

}  // namespace microscale
