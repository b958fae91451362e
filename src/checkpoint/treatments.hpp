// What becomes of every tensor of a model: the recipe's decision on each, then what only several
// tensors together decide: fused experts (their layout), and fused groups (whole or not at all).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/fused_experts.hpp"
#include "checkpoint/model_folder.hpp"
#include "checkpoint/recipe.hpp"
#include "core/result.hpp"

namespace microscale {

struct TensorTreatment {
  std::size_t shard = 0;
  const TensorEntry* entry = nullptr;  // of the model folder
  Decision decision;
  std::optional<ExpertPart> part;       // of fused experts
  std::optional<ExpertLayout> experts;  // when they are split
  std::string group;                    // quantized with others under one global scale; else empty
};

/// In the order of the shards, and within each by position. Fails where --include and --ignore cut
/// a fused group in two, where a pattern matches nothing, and where the weights are
/// quantized already.
Result<std::vector<TensorTreatment>> decide_treatments(const ModelFolder& model,
                                                       const Recipe& recipe);

/// The `ignore` list: every linear layer that stays as it is, so that loaders take exactly the
/// others for quantized. Sorted; always with lm_head unless that is quantized (it may be tied to
/// the embedding, and then has no tensor).
std::vector<std::string> ignored_modules(const std::vector<TensorTreatment>& treatments);

}  // namespace microscale
