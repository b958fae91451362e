// model.safetensors.index.json: which file of a sharded model holds which tensor. Diffusers call it
// diffusion_pytorch_model.safetensors.index.json, others otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace microscale {

inline constexpr const char* shard_index_name = "model.safetensors.index.json";

/// Whether a file of this name is an index: *.safetensors.index.json, not hidden.
bool is_shard_index_name(std::string_view name);

struct ShardIndex {
  std::optional<std::uint64_t> total_size;        // bytes of all tensors, where the file says so
  std::map<std::string, std::string> weight_map;  // tensor -> bare file name
  bool operator==(const ShardIndex&) const = default;
};

/// Empty when `name` is a bare file name ending in .safetensors; else what is wrong with it. A bare
/// name has no '/', no '\', no control character, and is not hidden.
std::string problem_with_shard_name(std::string_view name);

/// Strict: `weight_map` must be there and map strings to bare file names, `metadata.total_size`
/// must be a whole number below 2^60 if present; other keys are ignored. A failure names the
/// tensor, not the file.
Result<ShardIndex> parse_shard_index(std::string_view json);

/// The same bytes for the same index, laid out as transformers does: two spaces, sorted keys, a
/// newline.
std::string write_shard_index(const ShardIndex& index);

}  // namespace microscale
