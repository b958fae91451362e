// The `ignore` list of a quantization_config, in every spelling that engines look for.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/treatments.hpp"

namespace microscale {

/// Every linear layer that stays as it is, so that loaders take exactly the others for quantized:
/// by its own name; by the name of the layer that engines fuse it into, where all of that is kept
/// ("...self_attn.qkv_proj"); and by a pattern of what encloses it, where nothing in there is
/// quantized ("re:model\.vision_tower\..*"). Of kept experts their module, too. Sorted; always with
/// lm_head unless that is quantized (it may be tied to the embedding, and then has no tensor).
std::vector<std::string> ignored_modules(const std::vector<TensorTreatment>& treatments);

}  // namespace microscale
