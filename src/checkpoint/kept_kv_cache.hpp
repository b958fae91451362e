// How a model's key-value cache is stored, in another container: its scales are tensors that every
// container has under the same names.
#pragma once

#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// Puts what the input's config.json or hf_quant_config.json says of the cache into the texts that
/// the plan writes. What `container` has no words for (NVFP4 outside ModelOpt) becomes a notice.
Status keep_kv_cache_scheme(ModelPlan& plan, Container container);

}  // namespace microscale
