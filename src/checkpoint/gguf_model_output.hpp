// A GGUF file made of a model folder: what llama.cpp calls each tensor, which type it gets there,
// and where it goes; config.json and the tokenizer as metadata. The way back of
// containers/gguf_model.hpp.
#pragma once

#include "checkpoint/containers/gguf_hyperparameters.hpp"
#include "checkpoint/containers/gguf_writer.hpp"
#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// What the folder's files become.
struct GgufModel {
  GgufHyperparameters parameters;
  GgufMetadata metadata;
};

/// Of a plan whose treatments are decided: drops what llama.cpp has no tensor for, gives formats
/// that its graph can use, relays what is kept, and makes the metadata. Fails with one sentence for
/// models, tensors and tokenizers that do not go into GGUF. Reads the small files of the folder.
Result<GgufModel> settle_gguf_model(ModelPlan& plan, const QuantizeModelOptions& options);

/// Fills in the plan's only shard, its tiles and groups, and the bytes of the summary's tensors.
Status lay_out_gguf_model(ModelPlan& plan, const QuantizeModelOptions& options,
                          const GgufModel& model);

}  // namespace microscale
