// A fine-tune of gpt-oss on its way back into the published layout: experts as MXFP4, all of a
// layer in one tensor, everything else as it is.
#pragma once

#include <vector>

#include "checkpoint/matrix_slice.hpp"
#include "checkpoint/model_facts.hpp"
#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// Of a plan whose treatments are decided: experts are quantized without being split, other layers
/// stay. Fails for a model that is no gpt-oss, and for experts that lie otherwise than there. With
/// options of another container it does nothing.
Status plan_gpt_oss_experts(ModelPlan& plan, const QuantizeModelOptions& options,
                            const ModelFacts& facts);

/// The matrices of [experts, inputs, outputs], each as [outputs, inputs].
std::vector<MatrixSlice> stacked_slices(const TensorEntry& entry);

}  // namespace microscale
