// What becomes of every tensor of a model: the recipe's decision on each, then what only several
// tensors together decide: fused experts (their layout), fused groups and the experts of a layer
// (whole or not at all).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/dense_view.hpp"
#include "checkpoint/fused_experts.hpp"
#include "checkpoint/model_folder.hpp"
#include "checkpoint/recipe.hpp"
#include "core/result.hpp"

namespace microscale {

struct TensorTreatment {
  std::size_t shard = 0;
  const TensorEntry* entry = nullptr;  // of the dense model
  Decision decision;
  Verdict verdict;
  std::optional<ExpertLayout> experts;  // when they are split
  std::string group;                    // quantized with others under one global scale; else empty
  WeightFormat format = WeightFormat::nvfp4;  // of its weight, where that is quantized
  const DenseTensor* source = nullptr;        // where its elements come from
};

/// In the order of the view's tensors. Fails where --include, --ignore or --use cut a fused group
/// or a layer's experts in two, where a pattern matches nothing, where weights cannot be decoded,
/// and where neither the model nor `experts` says how fused experts lie. `keeping`: of a conversion
/// with keep_codes, which quantizes nothing.
Result<std::vector<TensorTreatment>> decide_treatments(
    const ModelFolder& model, const DenseView& view, const Classifier& classifier,
    const Recipe& recipe, std::optional<ExpertOrder> experts,
    const QuantizeModelOptions* keeping = nullptr);

}  // namespace microscale
