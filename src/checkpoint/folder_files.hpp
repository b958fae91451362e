// What lies in a model folder, file by file: weights, index, config, what a converted copy of the
// model needs unchanged, and what it is better off without. Looks at names only, never into a file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"

namespace microscale {

/// A file that does not belong into a converted model, and why ("weights in another format").
struct LeftOutFile {
  std::filesystem::path path;  // relative to the folder
  std::string reason;
};

struct FolderFiles {
  bool has_index = false;                          // model.safetensors.index.json
  bool has_config = false;                         // config.json
  std::vector<std::string> top_level_safetensors;  // sorted names
  std::vector<std::filesystem::path> to_copy;      // relative, sorted
  std::vector<LeftOutFile> left_out;
};

/// Lists `root` with its sub-folders. Weights in other formats (.bin .pt .pth .h5 .onnx .msgpack
/// .gguf and the like) and their indexes are left out, except in the numbered module folders of
/// sentence-transformers
/// ("2_Dense"), whose small weights nothing else holds; so are hidden folders, unfinished
/// `.partial` files and what is neither file nor folder. A link to a file may not leave the folder
/// (see link_stays_inside).
Result<FolderFiles> list_folder(const std::filesystem::path& root);

/// The file by which a run of ours marks a folder that it has not written to the end, if one of
/// these is that.
std::optional<std::string> unfinished_mark(const std::vector<std::filesystem::path>& to_copy,
                                           const std::vector<LeftOutFile>& left_out);

/// Whether the file a link leads to is below `root`, or in the `blobs` folder of the Hugging Face
/// cache that `root` is a snapshot of (<cache>/snapshots/<revision> and <cache>/blobs).
bool link_stays_inside(const std::filesystem::path& root, const std::filesystem::path& link);

}  // namespace microscale
