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

#include "checkpoint/containers/gguf_plan.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/folder_files.hpp"
#include "checkpoint/safetensors.hpp"
#include "core/result.hpp"

namespace microscale {

struct ModelShard {
  std::string name;  // file name within the folder
  InputFile file;
  SafetensorsHeader header;
  bool side = false;  // beside the model: none of its own files
};

/// One tensor of the model: where it is. `entry` points into `shards[shard].header`.
struct ModelTensor {
  std::size_t shard = 0;
  const TensorEntry* entry = nullptr;

  const std::string& name() const { return entry->name; }
};

/// A small file that lies nowhere and is written into the output: made of a GGUF file's metadata.
struct MadeFile {
  std::string name;
  std::string text;
};

struct ModelFolder {
  std::filesystem::path opened;      // as it was named: the folder or the single file
  std::filesystem::path root;        // the folder; of a single file, the folder that holds it
  bool whole_folder = false;         // not one file of it by itself
  std::string index_name;            // of the index, as the output has one too; empty: one file
  std::vector<ModelShard> shards;    // by file name; then those beside the model
  std::vector<ModelTensor> tensors;  // by name, bytewise
  std::optional<std::string>
      config_text;  // config.json as it is, checked to be one strict JSON object
  /// To be copied unchanged, relative to root, sorted: everything but the shards, their index,
  /// config.json and what is left out. Files of sub-folders are here too, and the strays.
  std::vector<std::filesystem::path> other_files;
  /// .safetensors files beside the model's with tensors that it has not: drafters, adapters.
  std::vector<ModelShard> strays;
  std::vector<LeftOutFile> left_out_files;  // sorted
  bool is_gguf = false;                     // what one stands for: see containers/gguf_model.hpp
  /// Of a GGUF file: tensors whose bytes are not those of the dense model, where and how they lie.
  std::vector<GgufSource> gguf_sources;
  std::vector<MadeFile> made_files;  // that the output has beside other_files
  std::vector<std::pair<std::string, std::string>> gguf_metadata;  // values for people, cut short
  std::vector<std::string> pointers;  // of other_files: Git LFS pointers, not the files
  std::vector<std::string> notices;   // oddities that stop nothing, one sentence each
  std::vector<std::string> remarks;   // how the path that was named was read: snapshot, links

  ModelFolder() = default;
  ModelFolder(ModelFolder&&) = default;
  ModelFolder& operator=(ModelFolder&&) = default;

  /// Null when the model has no such tensor.
  const ModelTensor* find(std::string_view name) const;
  /// Of all tensors together.
  std::uint64_t tensor_bytes() const;
  /// Of made_files.
  std::uint64_t made_bytes() const;
  /// Notices, remarks and pointers, one sentence each: what a user of the model should hear.
  std::vector<std::string> sentences() const;
};

/// Opens what find_model finds: a folder (an index of any name with its shards, or
/// model.safetensors, or the only .safetensors there is, or all of a numbered set) or one
/// .safetensors file by itself (with the config.json beside it, but no other files), or what a GGUF
/// file stands for (containers/gguf_model.hpp). Refused, each
/// with one sentence: missing shards, tensors the index promises and no shard holds, tensors in two
/// shards, links that lead nowhere or to a file of another kind, a model.safetensors beside an
/// index that does not name it, and whatever else is no model, by what it is. A tensor that the
/// index forgets is part of the model, with a notice.
Result<ModelFolder> open_model_folder(const std::filesystem::path& path);

/// A failure when an input file is not what it was when it was opened.
Status check_unchanged(const ModelFolder& model, std::string_view operation = "quantize");

}  // namespace microscale
