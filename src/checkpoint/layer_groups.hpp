// Which layers have which format, as loaders are told.
#pragma once

#include <vector>

#include "checkpoint/classifier.hpp"
#include "checkpoint/compressed_tensors.hpp"
#include "checkpoint/containers/container_writer.hpp"
#include "checkpoint/model_plan.hpp"

namespace microscale {

/// All layers of one format: one group that targets the class Linear. Several: the formats of
/// --use in their order, then the rest; each lists its layers by name, also those that engines make
/// of several, and the experts of a layer by one expression, which comes last. No layer is in two.
std::vector<LayerGroup> layer_groups(const ModelPlan& plan, const QuantizeModelOptions& options);

/// The files that describe the plan's layers to loaders, in the container of the options.
Result<Descriptions> describe_layers(const ModelPlan& plan, const QuantizeModelOptions& options,
                                     const Classifier& classifier);

}  // namespace microscale
