// What the layers of a model's family have, so that a part is missed that no layer has: a filter
// that was wrong, or a script that dropped a name, leaves the same trace in all of them.
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/completeness.hpp"

namespace microscale {

/// The families that are known, a line each: "= llama mistral ; . mlp self_attn ; mlp down_proj
/// gate_proj up_proj". After the model types one part for each set of names that stands in a layer,
/// after the module that holds them ("." for the layer itself, "#" for each of its experts). A line
/// that begins with "+ " goes on with the one before.
std::string_view parts_of_families();

/// Adds to `gaps` what no layer of a stack has, though the layers of its family have it beside all
/// that these have. Where a layer has modules that the family does not know, it is of another kind
/// and not judged. Of a family that is not known one thing is asked: norms, if config.json has a
/// constant for them (doubtful).
void find_parts_of_no_layer(const ModelFolder& model, const ModelFacts& facts,
                            std::vector<Gap>& gaps);

}  // namespace microscale
