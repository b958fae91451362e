// Where the model is that a path names: the folder itself, a snapshot in a cache of the Hugging
// Face Hub, one file; and what a folder is that holds no weights we read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/folder_files.hpp"
#include "core/result.hpp"

namespace microscale {

struct ModelPlace {
  std::filesystem::path root;        // the folder; of a single file, the folder that holds it
  std::string file;                  // the one file that was named; empty: all
  std::string index;                 // the index that was named; empty: none
  bool is_gguf = false;              // the file is a GGUF file of llama.cpp
  std::vector<std::string> remarks;  // "'X' is a cache: snapshot abc (refs/main) is read"
};

/// A folder; a cache folder of the Hub ("models--X--Y": the snapshot of refs/main, or the only one;
/// also a folder with one such folder); a .safetensors or GGUF file; an index. Anything else is a
/// failure that says what it is.
Result<ModelPlace> find_model(const std::filesystem::path& path);

/// Why a folder without .safetensors files is no model, in one sentence with the command that
/// helps: a pipeline, an adapter, weights in another format, a folder around the model.
Failure explain_no_weights(const std::filesystem::path& root, const FolderFiles& files);

/// "'a', 'b', 'c' and 7 more".
std::string some_of(const std::vector<std::string>& names);

}  // namespace microscale
