#include "checkpoint/model_place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <system_error>

#include "checkpoint/file.hpp"
#include "checkpoint/file_kind.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/shard_index.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_reference = 4096;  // bytes of refs/main

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

// Names of the sub-folders, sorted; none where it cannot be listed.
std::vector<std::string> folders_in(const fs::path& folder, std::string_view start = "") {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(start) && entry.is_directory(error)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// What refs/main says; empty where it says nothing that can be the name of a snapshot.
std::string main_revision(const fs::path& cache) {
  const auto text = read_small_file(cache / "refs" / "main", largest_reference);
  if (!text) return "";
  std::string revision = text.value();
  while (!revision.empty() && (revision.back() == '\n' || revision.back() == ' ')) {
    revision.pop_back();
  }
  return revision.find_first_of("/\\") == std::string::npos ? revision : "";
}

// Of a cache folder with `snapshots`.
Result<ModelPlace> find_snapshot(const fs::path& cache) {
  const std::vector<std::string> snapshots = folders_in(cache / "snapshots");
  const std::string wanted = main_revision(cache);
  const bool by_reference = std::binary_search(snapshots.begin(), snapshots.end(), wanted);
  if (snapshots.empty()) {
    return bad(
        fmt::format("'{}' is a folder of the Hugging Face cache without a snapshot, so nothing was "
                    "downloaded; run `hf download` again",
                    cache.string()));
  }
  if (!by_reference && snapshots.size() > 1) {
    return bad(fmt::format(
        "'{}' is a folder of the Hugging Face cache with the snapshots {}, and its "
        "refs/main names none of them; name one: '{}'",
        cache.string(), some_of(snapshots), (cache / "snapshots" / snapshots.front()).string()));
  }
  const std::string& name = by_reference ? wanted : snapshots.front();
  ModelPlace place;
  place.root = cache / "snapshots" / name;
  place.remarks.push_back(fmt::format(
      "'{}' is a folder of the Hugging Face cache; read is its {} "
      "{}",
      cache.string(), by_reference ? "snapshot of refs/main," : "only snapshot,", in_quotes(name)));
  return place;
}

Result<ModelPlace> find_in_folder(const fs::path& path) {
  const bool is_cache =
      is_folder(path / "snapshots") && (is_folder(path / "refs") || is_folder(path / "blobs"));
  if (is_cache && !is_file(path / "config.json")) return find_snapshot(path);
  const fs::path full = path.has_filename() ? path : path.parent_path();
  if (full.filename() == "snapshots" && is_folder(full.parent_path() / "blobs")) {
    return find_snapshot(full.parent_path());
  }
  ModelPlace place;
  place.root = path;
  if (is_file(path / "config.json")) return place;
  const std::vector<std::string> models = folders_in(path, "models--");
  if (models.size() == 1) return find_snapshot(path / models.front());
  if (models.size() > 1) {
    return bad(
        fmt::format("'{}' is a cache of the Hugging Face Hub with {} models: {}; name one of them",
                    path.string(), models.size(), some_of(models)));
  }
  return place;
}

// A path that is not there may be the name of a model on the Hub: "Qwen/Qwen3-8B".
std::string advice_for_missing(const fs::path& path) {
  const std::string text = path.string();
  const bool one_slash = std::count(text.begin(), text.end(), '/') == 1;
  if (one_slash && text.front() != '/' && text.front() != '.' && text.back() != '/') {
    return fmt::format(
        "name a model folder or a .safetensors file; a model of the Hugging Face Hub is fetched "
        "by `hf download {} --local-dir {}`",
        text, path.filename().string());
  }
  return "name a model folder or a .safetensors file";
}

// The top-level file that most likely holds the weights in another format.
std::string foreign_weights(const fs::path& root, const FolderFiles& files) {
  std::vector<std::string> names;
  for (const LeftOutFile& file : files.left_out) {
    if (!file.path.has_parent_path() && file.reason.starts_with("weights") &&
        is_file(root / file.path)) {
      names.push_back(file.path.string());
    }
  }
  constexpr std::array<std::string_view, 7> endings{".bin",  ".pt",  ".pth", ".ckpt",
                                                    ".onnx", ".npz", ".h5"};
  for (const fs::path& file : files.to_copy) {
    const std::string ending = file.extension().string();
    if (!file.has_parent_path() &&
        std::find(endings.begin(), endings.end(), ending) != endings.end()) {
      names.push_back(file.string());
    }
  }
  const auto first = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return !explain_file(root / name).empty();
  });
  return first == names.end() ? "" : *first;
}

// "its 'pytorch_model.bin' is a PyTorch pickle; ...".
std::string explain_foreign(const fs::path& root, const std::string& name, bool has_config) {
  const std::string what = explain_file(root / name);
  if (!has_config || what.find("PyTorch pickle") == std::string::npos) {
    return fmt::format("its {} {}", in_quotes(name), what);
  }
  return fmt::format(
      "its {} is a PyTorch pickle; write the model as safetensors first: `python -c \"import sys, "
      "transformers as t; m = t.AutoModelForCausalLM.from_pretrained(sys.argv[1], "
      "torch_dtype='auto'); m.save_pretrained(sys.argv[2])\" '{}' OUT` (and copy the tokenizer)",
      in_quotes(name), root.string());
}

// Sub-folders that files to copy say hold .safetensors.
std::vector<std::string> folders_with_weights(const FolderFiles& files) {
  std::set<std::string> names;
  for (const fs::path& file : files.to_copy) {
    if (file.has_parent_path() && file.extension() == ".safetensors") {
      names.insert(file.parent_path().string());
    }
  }
  return {names.begin(), names.end()};
}

bool holds(const FolderFiles& files, const char* name) {
  return std::find(files.to_copy.begin(), files.to_copy.end(), name) != files.to_copy.end();
}

}  // namespace

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i) {
    text += (i ? ", " : "") + in_quotes(names[i]);
  }
  return names.size() > shown ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

Result<ModelPlace> find_model(const fs::path& path) {
  if (path.empty()) {
    return Failure{ErrorCode::invalid_argument,
                   "no model was named; name a model folder or a .safetensors file"};
  }
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return Failure{ErrorCode::io, fmt::format("cannot open '{}': {}; {}", path.string(),
                                              error ? error.message() : "there is no such file",
                                              advice_for_missing(path))};
  }
  if (fs::is_directory(status)) return find_in_folder(path);
  ModelPlace place;
  place.root = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string name = path.filename().string();
  if (path.extension() == ".safetensors") {
    place.file = name;
    return place;
  }
  if (is_shard_index_name(name)) {
    place.index = name;
    return place;
  }
  if (kind_of_file(path) == FileKind::gguf) {
    place.file = name;
    place.is_gguf = true;
    return place;
  }
  const std::string what = name.ends_with(".json") ? "" : explain_file(path);
  if (!what.empty()) return bad(fmt::format("'{}' {}", path.string(), what));
  return bad(fmt::format("'{}' is no .safetensors or GGUF file; name one, or a model folder",
                         path.string()));
}

Failure explain_no_weights(const fs::path& root, const FolderFiles& files) {
  const std::vector<std::string> inner = folders_with_weights(files);
  if (holds(files, "model_index.json")) {
    const auto has = [&](const char* name) {
      return std::find(inner.begin(), inner.end(), name) != inner.end();
    };
    const std::string part = has("transformer") ? "transformer"
                             : has("unet")      ? "unet"
                             : !inner.empty()   ? inner.front()
                                                : "transformer";
    return bad(
        fmt::format("'{}' is a pipeline of diffusers (model_index.json), whose models lie in "
                    "sub-folders: {}; convert the one that holds most weights: '{}'",
                    root.string(), inner.empty() ? "none with .safetensors" : some_of(inner),
                    (root / part).string()));
  }
  if (holds(files, "adapter_config.json")) {
    return bad(fmt::format(
        "'{}' is an adapter (adapter_config.json), not a model; name its base model, and "
        "the adapter with --lora to have it added",
        root.string()));
  }
  if (const std::string name = foreign_weights(root, files); !name.empty()) {
    return bad(fmt::format("'{}' holds no .safetensors file; {}", root.string(),
                           explain_foreign(root, name, files.has_config)));
  }
  if (!inner.empty()) {
    return bad(
        fmt::format("'{}' holds no .safetensors file of its own, its sub-folders do: {}; "
                    "name one of them",
                    root.string(), some_of(inner)));
  }
  return bad(
      fmt::format("'{}' holds no .safetensors file; name a model folder with "
                  "model.safetensors or {}",
                  root.string(), shard_index_name));
}

}  // namespace microscale
