// verify's rules on headers and config, asked of a conversion before its first byte: a folder that
// would not pass is not written.
#pragma once

#include "checkpoint/finding.hpp"
#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// A file that is to be written.
struct PlannedFile {
  std::string name;
  const SafetensorsLayout* layout = nullptr;
  bool side = false;  // beside the model
};

/// What verify would say of a folder of these files with this config.json, beside the other files
/// of `source`. Scales of the cache are taken from there. Throws Error where a file cannot be read.
Findings verify_planned(const ModelFolder& source, const std::vector<PlannedFile>& files,
                        const std::string& config_text);

/// What verify would say of the folder that the plan writes, as far as it does not depend on codes
/// and scales. Throws Error where an input file cannot be read.
Findings verify_plan(const ModelPlan& plan);

/// Success, or the first error of verify_plan; of a plan of one file, success.
Status check_plan(const ModelPlan& plan);

}  // namespace microscale
