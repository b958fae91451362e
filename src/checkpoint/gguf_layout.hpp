// Where everything goes in a GGUF file that is made of one: the table of tensors, metadata, blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/containers/gguf_file.hpp"
#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// "blk.0.ffn_up.scale" of "blk.0.ffn_up.weight".
std::string gguf_scale_name(std::string_view weight);

/// Fills in the plan's only shard, its tiles, groups and summary. `tensors`: of the input, parallel
/// to plan.tensors, whose decisions and formats are settled. `file`: for its metadata.
Status lay_out_gguf(ModelPlan& plan, const GgufFile& file,
                    const std::vector<const GgufTensor*>& tensors,
                    const QuantizeModelOptions& options);

}  // namespace microscale
