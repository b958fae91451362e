// What lies in a model folder, file by file: weights, index, config, what a converted copy of the
// model needs unchanged, and what it is better off without. Looks at names and sizes only, never
// into a file.
#pragma once

#include <cstdint>
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
  bool has_config = false;                         // config.json
  std::vector<std::string> indexes;                // top-level *.safetensors.index.json, sorted
  std::vector<std::string> top_level_safetensors;  // sorted names
  std::vector<std::filesystem::path> to_copy;      // relative, sorted
  std::vector<LeftOutFile> left_out;
  /// Files behind links that lead out of the folder: "'a.json' (to '/disk/a.json')".
  std::vector<std::string> linked;
};

/// Lists `root` with its sub-folders. Left out are: the model's own weights in other formats, by
/// their usual names, and their indexes; other files with an ending of weights (.bin .pt .pth .ckpt
/// .onnx .npz .h5 .msgpack) above 64 MiB, as smaller ones are voices, filters and the like;
/// the state of training runs, checkpoint-*; original/ and folders of exports (onnx/); hidden
/// folders, linked folders, unfinished files and what is neither file nor folder. The numbered
/// module folders of sentence-transformers ("2_Dense") are copied whole. Links to files elsewhere
/// are followed (see link_may_be_followed); one that leads nowhere is a failure.
Result<FolderFiles> list_folder(const std::filesystem::path& root);

/// Why a file stays behind, by its path within the folder and its size in bytes; empty for a file
/// to copy.
std::string reason_to_leave_out(const std::filesystem::path& relative, std::uint64_t bytes);

/// Whether a file holds weights, by its ending. Users edit no such file by hand.
bool holds_weights(const std::filesystem::path& file);

/// The file by which a run of ours marks a folder that it has not written to the end, if one of
/// these is that.
std::optional<std::string> unfinished_mark(const std::vector<std::filesystem::path>& to_copy,
                                           const std::vector<LeftOutFile>& left_out);

/// Whether the file a link leads to is below `root`, or in the `blobs` folder of the Hugging Face
/// cache that `root` is a snapshot of (<cache>/snapshots/<revision> and <cache>/blobs).
bool link_stays_inside(const std::filesystem::path& root, const std::filesystem::path& link);

/// Whether a link that leads elsewhere, to `target`, is one that people make: to a file with the
/// same ending, or in a store that names files by their hash. `tokenizer.json` as a link to
/// `/etc/passwd` is none.
bool link_may_be_followed(const std::filesystem::path& link, const std::filesystem::path& target);

}  // namespace microscale
