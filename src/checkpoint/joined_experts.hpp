// Experts that lie one by one in a model whose loaders know them as one tensor only: as that
// tensor. The way back of fused_experts.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/fused_experts.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "core/result.hpp"

namespace microscale {

/// How transformers has the experts of such a family ("gpt_oss"), of which it reads nothing else:
/// `transposed` and `interleaved` of the layout. Nothing for all other families.
std::optional<ExpertLayout> joined_layout_of(std::string_view model_type);

/// Of a folder of such a family: replaces "P.experts.3.gate_proj.weight" and its like, in whatever
/// container they are, by "P.experts.gate_up_proj" and "P.experts.down_proj", biases by
/// "P.experts.gate_up_proj_bias" and "P.experts.down_proj_bias". Fails where an expert or a part of
/// one is missing or has another shape; `operation` speaks ("dequantize"). Any other folder stays
/// as it is, and one in which a weight cannot be read.
Status join_experts(QuantizedFolder& folder, std::string_view operation);

/// What a user must know of a family whose experts its loaders know as one tensor, and which are
/// not joined here; nothing of all others, and where no expert lies by itself.
std::optional<std::string> experts_left_apart(const QuantizedFolder& folder);

}  // namespace microscale
