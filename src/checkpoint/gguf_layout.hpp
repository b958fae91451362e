// Where everything goes in a GGUF file: the table of tensors, metadata, blocks; of one that is made
// of a GGUF file all of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/containers/gguf_file.hpp"
#include "checkpoint/containers/gguf_writer.hpp"
#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// "blk.0.ffn_up.scale" of "blk.0.ffn_up.weight".
std::string gguf_scale_name(std::string_view weight);

/// llama.cpp's number for what a file mostly is (its enum llama_ftype), and of its blocks' version.
std::uint32_t gguf_file_type(Format format);
inline constexpr std::uint32_t gguf_quantization_version = 2;

/// Where tensors begin, in bytes from the start of the file.
using GgufPlaces = std::map<std::string, std::uint64_t, std::less<>>;

/// Makes `layout` that of the output.
GgufPlaces put_gguf_layout(ShardPlan& output, GgufLayout layout);

/// Fills in the plan's only shard, its tiles, groups and summary. `tensors`: of the input, parallel
/// to plan.tensors, whose decisions and formats are settled. `file`: for its metadata.
Status lay_out_gguf(ModelPlan& plan, const GgufFile& file,
                    const std::vector<const GgufTensor*>& tensors,
                    const QuantizeModelOptions& options);

}  // namespace microscale
