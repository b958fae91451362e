#include "checkpoint/folder_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <system_error>

#include "checkpoint/dense_output.hpp"
#include "checkpoint/journal.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/shard_index.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using Words = std::span<const std::string_view>;

constexpr std::uint64_t small_file = 64 << 20;  // bytes; of the side files with endings of weights

constexpr std::array<std::string_view, 10> weight_endings{
    ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".onnx_data", ".npz", ".h5", ".msgpack", ".pkl"};
// What no engine of a converted model reads beside it, whatever its name.
constexpr std::array<std::string_view, 5> foreign_endings{".gguf", ".ggml", ".ot", ".mlmodel",
                                                          ".mlpackage"};
// How the model's own weights begin in other formats.
constexpr std::array<std::string_view, 8> weight_names{
    "pytorch_model", "diffusion_pytorch_model", "tf_model",     "flax_model",
    "rust_model",    "diffusion_flax_model",    "consolidated", "openvino_model"};
// The same, but only beside the model: in a sub-folder they are those of another part of it.
constexpr std::array<std::string_view, 2> top_level_names{"model.", "model-"};
constexpr std::array<std::string_view, 4> onnx_names{"model_", "encoder_model", "decoder_model",
                                                     "decoder_with_past"};
constexpr std::array<std::string_view, 7> training_names{
    "optimizer",     "scheduler", "training_args", "rng_state",
    "random_states", "scaler.",   "trainer_state"};
constexpr std::array<std::string_view, 5> export_folders{"onnx", "openvino", "coreml", "tflite",
                                                         "gguf"};
constexpr std::array<std::string_view, 5> download_endings{".incomplete", ".aria2", ".crdownload",
                                                           ".part", ".download"};

bool ends_with_one_of(std::string_view name, Words endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

bool starts_with_one_of(std::string_view name, Words starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return name.starts_with(start); });
}

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

// Why a folder stays behind with all it holds; empty: it is entered.
std::string reason_to_leave_folder(const fs::path& relative, bool is_link) {
  const std::string name = relative.filename().string();
  if (name.starts_with(".")) return "hidden folder";
  if (is_link) return "link to a folder";
  if (relative.has_parent_path()) return "";
  if (name == "original") return "the same model as it was before it was converted";
  if (name.starts_with("checkpoint-") || name.starts_with("global_step")) {
    return "checkpoint of a training run";
  }
  return std::find(export_folders.begin(), export_folders.end(), name) != export_folders.end()
             ? "the same model in another format"
             : "";
}

bool is_hash(std::string_view name) {
  return name.size() >= 30 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void sort_in_file(FolderFiles& files, const fs::path& relative, std::uint64_t bytes) {
  const std::string name = relative.string();
  const bool top = !relative.has_parent_path();
  if (name == "config.json") {
    files.has_config = true;
  } else if (std::string reason = reason_to_leave_out(relative, bytes); !reason.empty()) {
    files.left_out.push_back({relative, std::move(reason)});
  } else if (top && is_shard_index_name(name)) {
    files.indexes.push_back(name);
  } else if (top && problem_with_shard_name(name).empty()) {
    files.top_level_safetensors.push_back(name);
  } else {
    files.to_copy.push_back(relative);
  }
}

// A link that leads out of the folder: noted, or refused.
Status check_link(const fs::path& root, const fs::path& relative, FolderFiles& files) {
  const fs::path link = root / relative;
  std::error_code error;
  const fs::path target = fs::canonical(link, error);
  if (error) {
    const fs::path named = fs::read_symlink(link, error);
    return Failure{
        ErrorCode::bad_input,
        fmt::format("'{}' is a link to '{}', which is not there; mount that disk, or download the "
                    "file again",
                    link.string(), named.string())};
  }
  if (link_stays_inside(root, link)) return success();
  if (!link_may_be_followed(link, target)) {
    return Failure{
        ErrorCode::bad_input,
        fmt::format("'{}' is a link that leads out of the model folder to a file of another kind, "
                    "'{}'; replace it by the file itself",
                    link.string(), target.string())};
  }
  files.linked.push_back(fmt::format("'{}' (to '{}')", relative.string(), target.string()));
  return success();
}

}  // namespace

std::string reason_to_leave_out(const fs::path& relative, std::uint64_t bytes) {
  const std::string name = relative.filename().string();
  if (relative == manifest_name) return "hashes of this folder's own tensors";
  const bool top = !relative.has_parent_path();
  if (top && (name == "quantize_config.json" || name == "quant_config.json")) {
    return "GPTQ's or AWQ's description of quantized weights";
  }
  if (name.ends_with(".partial")) return "unfinished file of an earlier run";
  if (ends_with_one_of(name, download_endings)) return "unfinished download";
  if (in_numbered_module(relative)) return "";
  if (ends_with_one_of(name, foreign_endings)) return "weights in another format";
  constexpr std::string_view index = ".index.json";
  const bool is_index = name.ends_with(index);
  const std::string of = is_index ? name.substr(0, name.size() - index.size()) : name;
  const bool weights = ends_with_one_of(of, weight_endings);
  if (weights && is_index) return "index of weights in another format";
  const bool state = weights || of.ends_with(".safetensors") || of.ends_with(".distcp");
  if (state && starts_with_one_of(name, training_names)) return "state of a training run";
  if (!weights) return "";
  if (starts_with_one_of(name, weight_names) ||
      (!relative.has_parent_path() && starts_with_one_of(name, top_level_names)) ||
      (name.find(".onnx") != std::string::npos && starts_with_one_of(name, onnx_names))) {
    return "weights in another format";
  }
  return bytes > small_file ? "weights in another format, larger than 64 MiB" : "";
}

bool holds_weights(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.ends_with(".safetensors") || ends_with_one_of(name, weight_endings) ||
         ends_with_one_of(name, foreign_endings);
}

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

bool link_may_be_followed(const fs::path& link, const fs::path& target) {
  if (is_hash(target.filename().string())) return true;
  return link.has_extension() ? link.extension() == target.extension()
                              : link.filename() == target.filename();
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
      std::string reason = reason_to_leave_folder(relative, is_link);
      if (reason.empty()) continue;
      entry.disable_recursion_pending();
      files.left_out.push_back({relative, std::move(reason)});
      continue;
    }
    const bool regular = entry->is_regular_file(broken);
    if (!regular && !is_link) {
      files.left_out.push_back({relative, "not a regular file"});
      continue;
    }
    const std::uint64_t bytes = regular ? entry->file_size(broken) : 0;
    if (is_link && reason_to_leave_out(relative, bytes).empty()) {
      if (Status followed = check_link(root, relative, files); !followed) return followed.failure();
      if (!regular) {
        files.left_out.push_back({relative, "not a regular file"});
        continue;
      }
    }
    sort_in_file(files, relative, bytes);
  }
  if (error) {
    return Failure{ErrorCode::io, fmt::format("cannot list the files of '{}': {}; check its "
                                              "permissions",
                                              root.string(), error.message())};
  }
  std::sort(files.indexes.begin(), files.indexes.end());
  std::sort(files.top_level_safetensors.begin(), files.top_level_safetensors.end());
  std::sort(files.to_copy.begin(), files.to_copy.end());
  std::sort(files.linked.begin(), files.linked.end());
  return files;
}

}  // namespace microscale
