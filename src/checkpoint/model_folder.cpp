#include "checkpoint/model_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "checkpoint/folder_files.hpp"
#include "checkpoint/config_json.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/shard_index.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_config = 16 << 20;  // bytes
constexpr std::uint64_t largest_index = 100'000'000;
constexpr const char* single_name = "model.safetensors";

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

// "'a', 'b' and 7 more".
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i) {
    text += (i ? ", " : "") + in_quotes(names[i]);
  }
  return names.size() > shown ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

// True for "model-00001-of-00003.safetensors": alone, it is a part of a model.
bool is_numbered_shard(const std::string& name) {
  const auto of = name.rfind("-of-");
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (of == std::string::npos) return false;
  const std::string_view after = std::string_view(name).substr(of + 4);
  const auto dash = name.rfind('-', of - 1);
  return of > 0 && dash != std::string::npos && digits(after.substr(0, after.find('.'))) &&
         digits(std::string_view(name).substr(dash + 1, of - dash - 1));
}

// Which files of a folder without an index are the model: the one, or a reason why there is none.
Result<std::string> only_weights_file(const fs::path& root, const FolderFiles& files) {
  const auto& found = files.top_level_safetensors;
  if (std::find(found.begin(), found.end(), single_name) != found.end()) {
    return std::string(single_name);
  }
  if (const auto mark = unfinished_mark(files.to_copy, files.left_out)) {
    return bad(
        fmt::format("'{}' is the unfinished output of another run ('{}' is there); finish that run "
                    "(quantize --resume) or remove the folder",
                    root.string(), *mark));
  }
  if (found.empty()) {
    return bad(fmt::format("'{}' holds no .safetensors file; name a model folder with {} or {}",
                           root.string(), single_name, shard_index_name));
  }
  if (found.size() > 1 || is_numbered_shard(found.front())) {
    return bad(
        fmt::format("'{}' holds {} but no {}, so it is unknown which files make up the model; "
                    "download the index too",
                    root.string(), some_of(found), shard_index_name));
  }
  return found.front();
}

Result<ShardIndex> read_index(const fs::path& path) {
  auto text = read_small_file(path, largest_index);
  if (!text) return text.failure();
  auto index = parse_shard_index(text.value());
  if (!index) return bad(fmt::format("'{}': {}", path.string(), index.failure().message));
  return index;
}

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
                    (model.root / shard_index_name).string(), in_quotes(name), file, elsewhere));
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
    return bad(fmt::format("'{}': {}; mend it or download it again", path.string(),
                           tree ? "it is not a JSON object" : tree.failure().message));
  }
  model.config_text = std::move(text.value());
  return success();
}

// Every shard the index names must be there, and model.safetensors must not contradict the index.
Status check_shard_files(const fs::path& root, const FolderFiles& files,
                         const std::set<std::string>& names) {
  const auto& found = files.top_level_safetensors;
  std::vector<std::string> missing;
  std::set_difference(names.begin(), names.end(), found.begin(), found.end(),
                      std::back_inserter(missing));
  if (!missing.empty()) {
    return bad(fmt::format("{} of the {} files named by '{}' are missing: {}; download them",
                           missing.size(), names.size(), (root / shard_index_name).string(),
                           some_of(missing)));
  }
  if (!names.contains(single_name) &&
      std::find(found.begin(), found.end(), single_name) != found.end()) {
    return bad(
        fmt::format("'{}' holds both {} and an index that does not name it, which are two "
                    "models; remove one of them",
                    root.string(), single_name));
  }
  return success();
}

Status open_folder(ModelFolder& model) {
  auto listed = list_folder(model.root);
  if (!listed) return listed.failure();
  FolderFiles& files = listed.value();
  std::optional<ShardIndex> index;
  std::set<std::string> names;
  if (files.has_index) {
    auto read = read_index(model.root / shard_index_name);
    if (!read) return read.failure();
    index = std::move(read.value());
    model.sharded = true;
    for (const auto& mapping : index->weight_map) names.insert(mapping.second);
    if (Status all = check_shard_files(model.root, files, names); !all) return all;
  } else {
    auto name = only_weights_file(model.root, files);
    if (!name) return name.failure();
    names.insert(name.value());
  }
  if (Status opened = open_shards(model, names); !opened) return opened;
  if (Status collected = collect_tensors(model); !collected) return collected;
  if (index) {
    if (Status agrees = check_index(model, *index); !agrees) return agrees;
  }
  if (files.has_config) {
    if (Status read = read_config(model); !read) return read;
  }
  model.other_files = std::move(files.to_copy);
  model.left_out_files = std::move(files.left_out);
  for (const std::string& name : files.top_level_safetensors) {
    if (!names.contains(name)) {
      model.left_out_files.push_back({name, "safetensors file that is not part of the model"});
    }
  }
  std::sort(model.left_out_files.begin(), model.left_out_files.end(),
            [](const LeftOutFile& a, const LeftOutFile& b) { return a.path < b.path; });
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

Result<ModelFolder> open_model_folder(const fs::path& path) {
  if (path.empty()) {
    return Failure{ErrorCode::invalid_argument,
                   "no model was named; name a model folder or a .safetensors file"};
  }
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return Failure{ErrorCode::io,
                   fmt::format("cannot open '{}': {}; name a model folder or a "
                               ".safetensors file",
                               path.string(), error ? error.message() : "there is no such file")};
  }
  ModelFolder model;
  model.opened = path;
  Status opened = success();
  if (fs::is_directory(status)) {
    model.root = path;
    opened = open_folder(model);
  } else {
    if (path.extension() != ".safetensors") {
      return bad(
          fmt::format("'{}' is no .safetensors file; name one, or a model folder", path.string()));
    }
    model.root = path.has_parent_path() ? path.parent_path() : fs::path(".");
    opened = open_shards(model, {path.filename().string()});
    if (opened) opened = collect_tensors(model);
    if (is_numbered_shard(path.filename().string())) {
      model.notices.push_back("this file is one of several shards; the others are left alone");
    }
  }
  if (!opened) return opened.failure();
  return model;
}

}  // namespace microscale
