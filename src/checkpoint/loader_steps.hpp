// What a loader does to a model beside decoding its weights: rotations of inputs, factors of
// channels, low-rank parts. Without them decoded weights are another model.
#pragma once

#include <string_view>

#include "checkpoint/finding.hpp"
#include "checkpoint/model_folder.hpp"
#include "core/result.hpp"

namespace microscale {

/// One for each kind: an error where no loader of the format knows the step, a warning where some
/// do. By config.json and names.
Findings find_loader_steps(const ModelFolder& model);

/// The first of these, or weights that are sparse as well, as a failure of `command`.
Status refuse_loader_steps(const ModelFolder& model, std::string_view command);

}  // namespace microscale
