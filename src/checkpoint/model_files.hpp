// Which .safetensors files of a folder make up the model: those an index names, the one there is,
// or a whole numbered set.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/folder_files.hpp"
#include "checkpoint/shard_index.hpp"
#include "core/result.hpp"

namespace microscale {

struct ModelFiles {
  std::set<std::string> names;
  std::string index_name;           // that the output has, too; empty: one file
  std::optional<ShardIndex> index;  // nothing where files make up a model without one
  std::vector<std::string> notices;
};

/// `named_index`: the index the user named; empty: the usual one, or the only one. A failure says
/// what is missing, or what the folder is instead of a model.
Result<ModelFiles> find_model_files(const std::filesystem::path& root, const FolderFiles& files,
                                    const std::string& named_index);

/// Reads and parses; a failure names the file.
Result<ShardIndex> read_shard_index(const std::filesystem::path& path);

/// "model-00001-of-00003.safetensors", taken apart.
struct NumberedName {
  std::string base;  // "model"
  std::uint64_t number = 0, count = 0;
};
std::optional<NumberedName> numbered_name(std::string_view name);

/// True for "model-00001-of-00003.safetensors": alone, it is a part of a model.
bool is_numbered_shard(const std::string& name);

}  // namespace microscale
