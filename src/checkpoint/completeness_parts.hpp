// What a whole model has beside its layers' matrices: norms, biases, embedding, output head, and
// all of its fused experts.
#pragma once

#include <vector>

#include "checkpoint/completeness.hpp"

namespace microscale {

/// Adds to `gaps`, by names and shapes alone: a norm or a bias that other layers with the same
/// matrices have; of a language model the embedding, the norm after the layers, the output head
/// that config.json does not tie; sizes that are not those of config.json (doubtful).
void find_lost_parts(const ModelFolder& model, const ModelFacts& facts, std::vector<Gap>& gaps);

/// The same of experts that are stored as one tensor: one of gate_up_proj and down_proj, or of
/// their biases, without the other; a part that the same layers elsewhere have; fewer experts than
/// the other parts or config.json have.
void find_lost_experts(const ModelFolder& model, const ModelFacts& facts, std::vector<Gap>& gaps);

}  // namespace microscale
