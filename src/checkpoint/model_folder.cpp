#include "checkpoint/model_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "checkpoint/config_json.hpp"
#include "checkpoint/containers/gguf_model.hpp"
#include "checkpoint/file_kind.hpp"
#include "checkpoint/folder_files.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/model_files.hpp"
#include "checkpoint/model_place.hpp"
#include "checkpoint/stray_weights.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_config = 16 << 20;  // bytes

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

Status open_shards(ModelFolder& model, const std::set<std::string>& names) {
  for (const std::string& name : names) {
    auto file = InputFile::open(model.root / name);
    if (!file) return file.failure();
    auto header = read_safetensors_header(file.value());
    if (!header) return header.failure();
    model.shards.push_back({name, std::move(file.value()), std::move(header.value())});
  }
  return success();
}

// Fills `tensors`, sorted, from the headers; the same name in two shards is a failure.
Status collect_tensors(ModelFolder& model) {
  for (std::size_t shard = 0; shard < model.shards.size(); ++shard) {
    for (const TensorEntry& entry : model.shards[shard].header.tensors) {
      model.tensors.push_back({shard, &entry});
    }
  }
  auto& tensors = model.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const ModelTensor& a, const ModelTensor& b) {
    return a.name() != b.name() ? a.name() < b.name() : a.shard < b.shard;
  });
  const auto twice =
      std::adjacent_find(tensors.begin(), tensors.end(),
                         [](const auto& a, const auto& b) { return a.name() == b.name(); });
  if (twice == tensors.end()) return success();
  return bad(
      fmt::format("tensor {} is in two files of '{}', '{}' and '{}'; remove the file that does "
                  "not belong to the model and download its index again",
                  in_quotes(twice->name()), model.root.string(), model.shards[twice->shard].name,
                  model.shards[(twice + 1)->shard].name));
}

// Holds the index against the headers, both sorted by tensor name.
Status check_index(ModelFolder& model, const ShardIndex& index) {
  for (const auto& [name, file] : index.weight_map) {
    const ModelTensor* tensor = model.find(name);
    if (tensor && model.shards[tensor->shard].name == file) continue;
    const std::string elsewhere =
        tensor ? fmt::format(", it is in '{}'", model.shards[tensor->shard].name) : "";
    return bad(
        fmt::format("'{}' says that tensor {} is in '{}', but that file does not hold it{}; "
                    "download the model again",
                    (model.root / model.index_name).string(), in_quotes(name), file, elsewhere));
  }
  std::vector<std::string> unmapped;
  for (const ModelTensor& tensor : model.tensors) {
    if (!index.weight_map.contains(tensor.name())) unmapped.push_back(tensor.name());
  }
  if (!unmapped.empty()) {
    model.notices.push_back(fmt::format(
        "the index does not mention {}, found in the shards; treated as part of the model",
        some_of(unmapped)));
  }
  if (index.total_size && *index.total_size != model.tensor_bytes()) {
    model.notices.push_back(fmt::format("the index says the tensors have {} bytes, they have {}",
                                        *index.total_size, model.tensor_bytes()));
  }
  return success();
}

Status read_config(ModelFolder& model) {
  const fs::path path = model.root / "config.json";
  auto text = read_small_file(path, largest_config);
  if (!text) return text.failure();
  const auto tree = parse_config(text.value());
  if (!tree || !tree.value().is_object()) {
    const std::string what = explain_misdownload(path);
    if (!what.empty()) return bad(fmt::format("'{}' {}", path.string(), what));
    return bad(fmt::format("'{}': {}; mend it or download it again", path.string(),
                           tree ? "it is not a JSON object" : tree.failure().message));
  }
  model.config_text = std::move(text.value());
  return success();
}

// The config.json beside one file, if it is one of a model at all.
Status read_config_beside(ModelFolder& model) {
  std::error_code error;
  if (!fs::is_regular_file(model.root / "config.json", error)) return success();
  if (Status read = read_config(model); !read) return read;
  const auto tree = parse_config(*model.config_text);
  for (const char* key : {"model_type", "architectures", "_class_name", "quantization_config"}) {
    if (tree.value().contains(key)) return success();
  }
  model.config_text.reset();
  return success();
}

// An index that does not count goes with the files it names: copied if they all are.
void sort_other_indexes(ModelFolder& model, const FolderFiles& files) {
  for (const std::string& name : files.indexes) {
    if (name == model.index_name) continue;
    const auto index = read_shard_index(model.root / name);
    const bool copied =
        index && std::all_of(index.value().weight_map.begin(), index.value().weight_map.end(),
                             [&](const auto& mapping) {
                               return std::any_of(model.strays.begin(), model.strays.end(),
                                                  [&](const ModelShard& stray) {
                                                    return stray.name == mapping.second;
                                                  });
                             });
    if (copied) {
      model.other_files.emplace_back(name);
    } else {
      model.left_out_files.push_back({name, "index of weights that are left out"});
    }
  }
}

Status open_folder(ModelFolder& model, const std::string& named_index) {
  auto listed = list_folder(model.root);
  if (!listed) return listed.failure();
  FolderFiles& files = listed.value();
  auto parts = find_model_files(model.root, files, named_index);
  if (!parts) return parts.failure();
  model.index_name = parts.value().index_name;
  model.notices = std::move(parts.value().notices);
  if (Status opened = open_shards(model, parts.value().names); !opened) return opened;
  if (Status collected = collect_tensors(model); !collected) return collected;
  if (parts.value().index) {
    if (Status agrees = check_index(model, *parts.value().index); !agrees) return agrees;
  }
  if (files.has_config) {
    if (Status read = read_config(model); !read) return read;
  }
  model.other_files = std::move(files.to_copy);
  model.left_out_files = std::move(files.left_out);
  std::vector<std::string> strays;
  std::set_difference(files.top_level_safetensors.begin(), files.top_level_safetensors.end(),
                      parts.value().names.begin(), parts.value().names.end(),
                      std::back_inserter(strays));
  sort_stray_weights(model, strays);
  sort_other_indexes(model, files);
  std::sort(model.other_files.begin(), model.other_files.end());
  std::sort(model.left_out_files.begin(), model.left_out_files.end(),
            [](const LeftOutFile& a, const LeftOutFile& b) { return a.path < b.path; });
  for (const fs::path& file : model.other_files) {
    if (is_git_lfs_pointer(model.root / file)) model.pointers.push_back(file.string());
  }
  if (!files.linked.empty()) {
    model.remarks.push_back(fmt::format(
        "{} of its files lie elsewhere, behind links, and are read there: {}{}",
        files.linked.size(), files.linked.front(), files.linked.size() > 1 ? " and others" : ""));
  }
  return success();
}

Status open_file(ModelFolder& model, const std::string& name) {
  if (Status opened = open_shards(model, {name}); !opened) return opened;
  if (Status collected = collect_tensors(model); !collected) return collected;
  if (Status read = read_config_beside(model); !read) return read;
  if (is_numbered_shard(name)) {
    model.notices.push_back("this file is one of several shards; the others are left alone");
  }
  if (model.config_text) {
    model.remarks.push_back(
        fmt::format("one file was named: of its folder only config.json is read too; name the "
                    "folder '{}' to take the other files along",
                    model.root.string()));
  }
  return success();
}

}  // namespace

const ModelTensor* ModelFolder::find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const ModelTensor& a, std::string_view b) { return a.name() < b; });
  return found != tensors.end() && found->name() == name ? &*found : nullptr;
}

std::uint64_t ModelFolder::tensor_bytes() const {
  std::uint64_t bytes = 0;
  for (const ModelTensor& tensor : tensors) bytes += tensor.entry->bytes();
  return bytes;
}

std::uint64_t ModelFolder::made_bytes() const {
  std::uint64_t bytes = 0;
  for (const MadeFile& file : made_files) bytes += file.text.size();
  return bytes;
}

std::vector<std::string> ModelFolder::sentences() const {
  std::vector<std::string> all = remarks;
  all.insert(all.end(), notices.begin(), notices.end());
  if (!pointers.empty()) {
    all.push_back(
        fmt::format("{} {} in place of the {}; fetch {} with `git lfs pull`", some_of(pointers),
                    pointers.size() == 1 ? "is a Git LFS pointer" : "are Git LFS pointers",
                    pointers.size() == 1 ? "file itself" : "files themselves",
                    pointers.size() == 1 ? "it" : "them"));
  }
  return all;
}

Result<ModelFolder> open_model_folder(const fs::path& path) {
  auto place = find_model(path);
  if (!place) return place.failure();
  if (place.value().is_gguf) return open_gguf_model(path);
  ModelFolder model;
  model.opened = path;
  model.root = place.value().root;
  model.remarks = std::move(place.value().remarks);
  model.whole_folder = place.value().file.empty();
  Status opened = model.whole_folder ? open_folder(model, place.value().index)
                                     : open_file(model, place.value().file);
  if (!opened) return opened.failure();
  return model;
}

Status check_unchanged(const ModelFolder& model, std::string_view operation) {
  for (const ModelShard& shard : model.shards) {
    const auto again = InputFile::open(shard.file.path());
    if (!again) return again.failure();
    if (again.value().identity() == shard.file.identity()) continue;
    return Failure{
        ErrorCode::bad_input,
        fmt::format("{}: '{}' was changed while it was converted; leave the input alone and "
                    "start again in another folder",
                    operation, shard.file.path().string())};
  }
  return success();
}

}  // namespace microscale
