// A Hugging Face model folder, opened and checked before anything is computed: every header read,
// every tensor accounted for, every other file known. Tensor data is not touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/folder_files.hpp"
#include "checkpoint/safetensors.hpp"
#include "core/result.hpp"

namespace microscale {

struct ModelShard {
  std::string name;  // file name within the folder
  InputFile file;
  SafetensorsHeader header;
};

/// One tensor of the model: where it is. `entry` points into `shards[shard].header`.
struct ModelTensor {
  std::size_t shard = 0;
  const TensorEntry* entry = nullptr;

  const std::string& name() const { return entry->name; }
};

struct ModelFolder {
  std::filesystem::path opened;      // as it was named: the folder or the single file
  std::filesystem::path root;        // the folder; of a single file, the folder that holds it
  bool sharded = false;              // there was an index
  std::vector<ModelShard> shards;    // by file name
  std::vector<ModelTensor> tensors;  // by name, bytewise
  std::optional<std::string>
      config_text;  // config.json as it is, checked to be one strict JSON object
  /// To be copied unchanged, relative to root, sorted: everything but the shards, their index,
  /// config.json and what is left out. Files of sub-folders are here too.
  std::vector<std::filesystem::path> other_files;
  std::vector<LeftOutFile> left_out_files;  // sorted
  std::vector<std::string> notices;         // oddities that stop nothing, one sentence each

  ModelFolder() = default;
  ModelFolder(ModelFolder&&) = default;
  ModelFolder& operator=(ModelFolder&&) = default;

  /// Null when the model has no such tensor.
  const ModelTensor* find(std::string_view name) const;
  /// Of all tensors together.
  std::uint64_t tensor_bytes() const;
};

/// Opens a folder (an index with its shards, or model.safetensors, or the only .safetensors there
/// is) or one .safetensors file by itself (then without config and other files). Refused, each with
/// one sentence: missing shards, tensors the index promises and no shard holds, tensors in two
/// shards, links that leave the folder (except into the `blobs` folder of a Hugging Face cache), a
/// model.safetensors beside an index that does not name it. A tensor that the index forgets is part
/// of the model, with a notice.
Result<ModelFolder> open_model_folder(const std::filesystem::path& path);

}  // namespace microscale
