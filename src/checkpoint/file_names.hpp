// Names of a model's files, before anything is written under them.
#pragma once

#include <string_view>

#include "checkpoint/model_folder.hpp"
#include "core/result.hpp"

namespace microscale {

/// Success, or a failure that names a file of the input whose name is no UTF-8 text: index,
/// manifest and reports are JSON, which cannot name it.
Status check_file_names(const ModelFolder& model, std::string_view operation);

}  // namespace microscale
