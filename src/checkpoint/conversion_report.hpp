// The report of a conversion: what the plan knows beforehand, what was measured, and the measured
// part as text for the journal, so that a resumed run reports on all of the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"
#include "report/model_report.hpp"

namespace microscale {

/// Every tensor of the plan in its order, nothing measured yet.
ModelReport start_report(const ModelPlan& plan, const QuantizeModelOptions& options);

/// The measured parts of the tensors that shard `shard` holds, as one JSON value.
std::string shard_report_text(const ModelPlan& plan, const ModelReport& report, std::size_t shard);

/// Puts them back; the value must be of the same plan and shard.
Status restore_shard_report(std::string_view text, const ModelPlan& plan, std::size_t shard,
                            ModelReport& report);

/// Name and release of this tool: "microscale 0.2.0".
std::string tool_name();

/// A sentence for each tensor whose error is far above what its format costs on weights as they
/// usually are (normally distributed), worst first, and one for those beyond the tenth.
std::vector<std::string> unusual_errors(const ModelReport& report);

}  // namespace microscale
