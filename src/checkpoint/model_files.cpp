#include "checkpoint/model_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "checkpoint/file.hpp"
#include "checkpoint/file_kind.hpp"
#include "checkpoint/model_place.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_index = 100'000'000;  // bytes
constexpr const char* single_name = "model.safetensors";

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

std::optional<std::uint64_t> number_of(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

// All files of one numbered set, 1 to its count; nothing when they are more or fewer.
std::optional<NumberedName> whole_set(const std::vector<std::string>& names) {
  std::optional<NumberedName> first;
  std::set<std::uint64_t> numbers;
  for (const std::string& name : names) {
    const auto parts = numbered_name(name);
    if (!parts || parts->number == 0 || parts->number > parts->count) return std::nullopt;
    if (!first) first = parts;
    if (parts->base != first->base || parts->count != first->count) return std::nullopt;
    numbers.insert(parts->number);
  }
  return first && numbers.size() == first->count && names.size() == first->count ? first
                                                                                 : std::nullopt;
}

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Of a folder without an index: the one file, or a whole numbered set.
Result<ModelFiles> files_without_index(const fs::path& root, const FolderFiles& files) {
  const auto& found = files.top_level_safetensors;
  for (const char* usual : {single_name, "diffusion_pytorch_model.safetensors"}) {
    if (holds(found, usual)) return ModelFiles{{usual}, "", {}, {}};
  }
  if (const auto mark = unfinished_mark(files.to_copy, files.left_out)) {
    return bad(
        fmt::format("'{}' is the unfinished output of another run ('{}' is there); finish that run "
                    "(quantize --resume) or remove the folder",
                    root.string(), *mark));
  }
  if (found.empty()) return explain_no_weights(root, files);
  if (found.size() == 1 && !numbered_name(found.front())) {
    return ModelFiles{{found.front()}, "", {}, {}};
  }
  if (const auto set = whole_set(found)) {
    return ModelFiles{
        {found.begin(), found.end()},
        set->base + ".safetensors.index.json",
        {},
        {fmt::format("there is no index, but the {} files are a whole numbered set, so they are "
                     "taken for the model",
                     found.size())}};
  }
  return bad(fmt::format(
      "'{}' holds {} but no {}, so it is unknown which files make up the model; download the index "
      "too, or name one file",
      root.string(), some_of(found), shard_index_name));
}

// The index that counts: the one that was named, model.safetensors.index.json, or the only one;
// empty for a folder without.
Result<std::string> choose_index(const fs::path& root, const FolderFiles& files,
                                 const std::string& named) {
  if (!named.empty()) return named;
  if (holds(files.indexes, shard_index_name)) return std::string(shard_index_name);
  if (files.indexes.empty() || holds(files.top_level_safetensors, single_name)) {
    return std::string();
  }
  if (files.indexes.size() == 1) return files.indexes.front();
  return bad(
      fmt::format("'{}' holds the indexes {}, and none of them is {}; name the one that "
                  "counts instead of the folder",
                  root.string(), some_of(files.indexes), shard_index_name));
}

// Every shard the index names must be there, and model.safetensors must not contradict the index.
Status check_shard_files(const fs::path& root, const FolderFiles& files,
                         const std::string& index_name, const std::set<std::string>& names) {
  const auto& found = files.top_level_safetensors;
  std::vector<std::string> missing;
  std::set_difference(names.begin(), names.end(), found.begin(), found.end(),
                      std::back_inserter(missing));
  if (!missing.empty()) {
    return bad(fmt::format("{} of the {} files named by '{}' are missing: {}; download them",
                           missing.size(), names.size(), (root / index_name).string(),
                           some_of(missing)));
  }
  if (!names.contains(single_name) && holds(found, single_name)) {
    return bad(
        fmt::format("'{}' holds both {} and an index that does not name it, which are two "
                    "models; remove one of them",
                    root.string(), single_name));
  }
  return success();
}

}  // namespace

std::optional<NumberedName> numbered_name(std::string_view name) {
  const auto of = name.rfind("-of-");
  if (of == std::string_view::npos || of == 0) return std::nullopt;
  const auto dash = name.rfind('-', of - 1);
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view after = name.substr(of + 4);
  const auto count = number_of(after.substr(0, after.find('.')));
  const auto number = number_of(name.substr(dash + 1, of - dash - 1));
  if (!count || !number) return std::nullopt;
  return NumberedName{std::string(name.substr(0, dash)), *number, *count};
}

bool is_numbered_shard(const std::string& name) { return numbered_name(name).has_value(); }

Result<ShardIndex> read_shard_index(const fs::path& path) {
  auto text = read_small_file(path, largest_index);
  if (!text) return text.failure();
  auto index = parse_shard_index(text.value());
  if (index) return index;
  const std::string what = explain_misdownload(path);
  if (!what.empty()) return bad(fmt::format("'{}' {}", path.string(), what));
  return bad(fmt::format("'{}': {}", path.string(), index.failure().message));
}

Result<ModelFiles> find_model_files(const fs::path& root, const FolderFiles& files,
                                    const std::string& named_index) {
  auto chosen = choose_index(root, files, named_index);
  if (!chosen) return chosen.failure();
  if (chosen.value().empty()) return files_without_index(root, files);
  ModelFiles parts;
  parts.index_name = std::move(chosen.value());
  auto read = read_shard_index(root / parts.index_name);
  if (!read) return read.failure();
  parts.index = std::move(read.value());
  for (const auto& mapping : parts.index->weight_map) parts.names.insert(mapping.second);
  if (Status all = check_shard_files(root, files, parts.index_name, parts.names); !all) {
    return all.failure();
  }
  return parts;
}

}  // namespace microscale
