// `quantize --resume` on a folder that an earlier run has written to the end: nothing is left to
// do, unless a file was lost since.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// Whether the output folder holds something, and no journal of a run to go on with.
bool looks_finished(const QuantizeModelOptions& options);

/// Of such a folder: when every file of weights in it has the size and the header that the plan
/// gives it, writes what is missing of the rest (config.json, the index, files that are copied) and
/// gives the names of that. A failure when the weights are not of this plan: then the folder is not
/// this run's. What was not changed stays as it is, a config.json that somebody edited too.
Result<std::vector<std::string>> mend_finished_run(const ModelPlan& plan,
                                                   const QuantizeModelOptions& options);

}  // namespace microscale
