// Where config.json and the tensors say different things of how weights are quantized. What reads
// weights goes by the tensors, and tells its user.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/quantized_folder.hpp"

namespace microscale {

/// One sentence for each kind of contradiction, with its first place and how many more there are:
/// formats, targets, ignore list, names, scales of inputs that are promised and not there, global
/// scales that look as if they were stored as their reciprocals. In the words of verify, which
/// lists them all. Reads headers and, of NVFP4, scales of inputs.
std::vector<std::string> config_contradictions(const QuantizedFolder& folder);

}  // namespace microscale
