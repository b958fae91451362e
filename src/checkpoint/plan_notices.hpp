// What a user should hear about a plan before the result is trusted: ModelPlan's notices.
#pragma once

#include "checkpoint/model_facts.hpp"
#include "checkpoint/model_plan.hpp"

namespace microscale {

/// What a calibration left behind and is left out; a config.json that is missing or names no model;
/// layers that are kept only because config.json counts fewer. `plan.tensors` are decided.
void tell_oddities(ModelPlan& plan, const ModelFacts& facts);

/// Scales of the key-value cache that `plan.config_text` does not describe.
void tell_undescribed_cache(ModelPlan& plan);

/// Layers of ModelOpt's FP8 without the scale of their inputs that engines read.
void tell_unscaled_inputs(ModelPlan& plan);

}  // namespace microscale
