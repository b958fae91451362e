#include "checkpoint/folder_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <system_error>

#include "checkpoint/dense_output.hpp"
#include "checkpoint/journal.hpp"
#include "checkpoint/shard_index.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 14> weight_endings{
    ".bin",  ".pt",   ".pth", ".ckpt",    ".h5",        ".onnx",    ".onnx_data",
    ".gguf", ".ggml", ".ot",  ".msgpack", ".mlpackage", ".mlmodel", ".npz"};

bool is_below(const fs::path& folder, const fs::path& file) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
         folder.end();
}

// "2_Dense/...": the layers of a sentence-transformers model behind its first.
bool in_numbered_module(const fs::path& relative) {
  if (!relative.has_parent_path()) return false;
  const std::string top = relative.begin()->string();
  const auto end = top.find_first_not_of("0123456789");
  return end != 0 && end != std::string::npos && top[end] == '_';
}

// Why a regular file is left out; empty for a file to copy.
std::string reason_to_leave_out(const fs::path& relative) {
  const std::string name = relative.filename().string();
  if (name.ends_with(".partial")) return "unfinished file of an earlier run";
  if (in_numbered_module(relative)) return "";
  for (const std::string_view ending : weight_endings) {
    if (name.ends_with(ending)) return "weights in another format";
    if (name.ends_with(std::string(ending) + ".index.json")) {
      return "index of weights in another format";
    }
  }
  return "";
}

void sort_in_file(FolderFiles& files, const fs::path& relative) {
  const std::string name = relative.string();
  if (name == shard_index_name) {
    files.has_index = true;
  } else if (name == "config.json") {
    files.has_config = true;
  } else if (!relative.has_parent_path() && problem_with_shard_name(name).empty()) {
    files.top_level_safetensors.push_back(name);
  } else if (std::string reason = reason_to_leave_out(relative); !reason.empty()) {
    files.left_out.push_back({relative, std::move(reason)});
  } else {
    files.to_copy.push_back(relative);
  }
}

}  // namespace

std::optional<std::string> unfinished_mark(const std::vector<fs::path>& to_copy,
                                           const std::vector<LeftOutFile>& left_out) {
  for (const fs::path& file : to_copy) {
    if (file == journal_name) return file.string();
  }
  for (const LeftOutFile& file : left_out) {
    if (file.path == journal_name || file.path == dequantize_marker) return file.path.string();
  }
  return std::nullopt;
}

bool link_stays_inside(const fs::path& root, const fs::path& link) {
  std::error_code error;
  const fs::path folder = fs::canonical(root, error);
  if (error) return false;
  const fs::path target = fs::canonical(link, error);
  if (error) return false;
  if (is_below(folder, target)) return true;
  const fs::path snapshots = folder.parent_path();
  return snapshots.filename() == "snapshots" &&
         target.parent_path() == snapshots.parent_path() / "blobs";
}

Result<FolderFiles> list_folder(const fs::path& root) {
  FolderFiles files;
  std::error_code error;
  fs::recursive_directory_iterator entry(root, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::path relative = entry->path().lexically_relative(root);
    std::error_code broken;
    const bool is_link = entry->is_symlink(broken);
    if (entry->is_directory(broken)) {
      const bool hidden = relative.filename().string().starts_with(".");
      if (hidden) entry.disable_recursion_pending();
      if (hidden || is_link) {
        files.left_out.push_back({relative, hidden ? "hidden folder" : "link to a folder"});
      }
    } else if (is_link && !link_stays_inside(root, entry->path())) {
      return Failure{ErrorCode::bad_input,
                     fmt::format("'{}' is a link that leads out of the model folder or nowhere; "
                                 "replace it by the file itself",
                                 entry->path().string())};
    } else if (!entry->is_regular_file(broken)) {
      files.left_out.push_back({relative, "not a regular file"});
    } else {
      sort_in_file(files, relative);
    }
  }
  if (error) {
    return Failure{ErrorCode::io, fmt::format("cannot list the files of '{}': {}; check its "
                                              "permissions",
                                              root.string(), error.message())};
  }
  std::sort(files.top_level_safetensors.begin(), files.top_level_safetensors.end());
  std::sort(files.to_copy.begin(), files.to_copy.end());
  return files;
}

}  // namespace microscale
