// Weights that are quantized already and go into another container with their codes: which do, what
// becomes of the others, and what their global scales are there.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/containers/container_writer.hpp"
#include "checkpoint/dense_view.hpp"
#include "checkpoint/model_plan.hpp"
#include "checkpoint/treatments.hpp"
#include "core/result.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// NVFP4's global scale as a container stores it.
struct StoredGlobal {
  float number = 1.0f;  // what its tensor holds
  BlockCoding coding;   // as readers of the container decode it
  bool same = true;     // for every block scale the same FP32 number as before
};

/// `divides`: the container stores divisors. Where the reciprocal is not exact, the number beside
/// it for which all block scales stand for the same as before; if there is none, the nearest.
StoredGlobal stored_global(const BlockCoding& coding, bool divides);

/// What a container that stores `number` stands for to its readers.
BlockCoding coding_of_stored(float number, bool divides);

/// The format that these blocks get: their own where the container of the options holds it, and no
/// other is asked for, else NVFP4 for MXFP4. Nothing: the container holds neither.
std::optional<WeightFormat> kept_format(Format blocks, const QuantizeModelOptions& options);

/// Of a weight whose tensor is not split: where it has blocks that stay.
std::optional<BlockCoding> coding_that_stays(const DenseTensor& tensor);

/// Turns what the recipe has decided into what options.keep_codes asks for: weights of linear
/// layers in blocks keep them, everything else is written as its values.
void keep_codes(TensorTreatment& treatment, const QuantizeModelOptions& options);

/// Of a matrix of such a weight, which gets `format`.
KeptBlocks kept_blocks(const DenseTensor& source, const MatrixSlice& slice, WeightFormat format,
                       const QuantizeModelOptions& options);

/// The part of a plan with options.keep_codes that comes once its matrices are known: scales of
/// inputs, what --exact refuses, and what the user is told. Reads numbers of the input.
Status plan_kept_codes(ModelPlan& plan, const QuantizeModelOptions& options);

/// What the input says of the inputs of its layers, and the format that most of its weights get:
/// options as make_model_plan wants them.
Result<QuantizeModelOptions> options_for(const ConvertModelOptions& options);

}  // namespace microscale
