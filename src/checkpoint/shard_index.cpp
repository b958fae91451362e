#include "checkpoint/shard_index.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/json.hpp"

namespace microscale {
namespace {

using Kind = JsonEvent::Kind;
constexpr std::uint64_t largest_total = std::uint64_t{1} << 60;

// Fills an index from the events of its JSON. Only two places matter: /weight_map/* and
// /metadata/total_size; everything else passes by.
class IndexEvents {
 public:
  explicit IndexEvents(ShardIndex& index) : index_(index) {}
  bool has_weight_map() const { return has_weight_map_; }

  std::optional<std::string> take(const JsonEvent& event) {
    std::optional<std::string> problem;
    if (event.kind == Kind::key) {
      (depth_ == 1 ? section_ : key_) = std::move(*event.text);
      return std::nullopt;
    }
    const bool ends = event.kind == Kind::end_object || event.kind == Kind::end_array;
    if (ends) {
      --depth_;
    } else if (depth_ == 0) {
      if (event.kind != Kind::begin_object) return "it is not a JSON object";
    } else if (depth_ == 1) {
      problem = take_section(event);
    } else if (depth_ == 2 && section_ == "weight_map") {
      problem = take_mapping(event);
    } else if (depth_ == 2 && section_ == "metadata" && key_ == "total_size") {
      problem = take_total_size(event);
    }
    if (event.kind == Kind::begin_object || event.kind == Kind::begin_array) ++depth_;
    return problem;
  }

 private:
  std::optional<std::string> take_section(const JsonEvent& event) {
    if (section_ == "weight_map") has_weight_map_ = true;
    const bool ours = section_ == "weight_map" || section_ == "metadata";
    if (ours && event.kind != Kind::begin_object) return section_ + " is not an object";
    return std::nullopt;
  }

  std::optional<std::string> take_mapping(const JsonEvent& event) {
    if (key_.empty()) return "weight_map holds a tensor with an empty name";
    if (event.kind != Kind::string) {
      return fmt::format("weight_map gives tensor {} something that is not a file name",
                         in_quotes(key_));
    }
    if (const std::string problem = problem_with_shard_name(*event.text); !problem.empty()) {
      return fmt::format("weight_map puts tensor {} into the file {}, but {}", in_quotes(key_),
                         in_quotes(*event.text), problem);
    }
    index_.weight_map.emplace(std::move(key_), std::move(*event.text));
    return std::nullopt;
  }

  // Some writers count in floating point; a whole number is taken in either spelling.
  std::optional<std::string> take_total_size(const JsonEvent& event) {
    const bool whole = event.kind == Kind::real && event.real == std::floor(event.real);
    if (event.kind == Kind::unsigned_integer && event.unsigned_integer < largest_total) {
      index_.total_size = event.unsigned_integer;
    } else if (whole && event.real >= 0 && event.real < static_cast<double>(largest_total)) {
      index_.total_size = static_cast<std::uint64_t>(event.real);
    } else {
      return "metadata.total_size is not a whole number of bytes below 2^60";
    }
    return std::nullopt;
  }

  ShardIndex& index_;
  int depth_ = 0;
  std::string section_;  // the last key of the outermost object
  std::string key_;      // the last key below it
  bool has_weight_map_ = false;
};

}  // namespace

bool is_shard_index_name(std::string_view name) {
  constexpr std::string_view ending = ".index.json";
  return name.ends_with(ending) &&
         problem_with_shard_name(name.substr(0, name.size() - ending.size())).empty();
}

std::string problem_with_shard_name(std::string_view name) {
  if (name.empty()) return "a file needs a name";
  if (name.find_first_of("/\\") != std::string_view::npos) {
    return "only bare file names are allowed, without '/' or '\\'";
  }
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return "it holds a control character";
  }
  if (name.front() == '.') return "names may not begin with a dot";
  if (!name.ends_with(".safetensors")) return "only .safetensors files are allowed";
  if (name.size() > 255) return "the name is longer than 255 bytes";
  return "";
}

Result<ShardIndex> parse_shard_index(std::string_view json) {
  ShardIndex index;
  IndexEvents events(index);
  std::string problem;
  Status read = read_json(json, [&](const JsonEvent& event) { return events.take(event); });
  if (!read) {
    problem = read.failure().message;
  } else if (!events.has_weight_map()) {
    problem = "it has no weight_map";
  } else if (index.weight_map.empty()) {
    problem = "its weight_map names no tensor";
  }
  if (problem.empty()) return index;
  return Failure{ErrorCode::bad_input,
                 fmt::format("{}; download or export the index again", problem)};
}

std::string write_shard_index(const ShardIndex& index) {
  nlohmann::json json;  // sorts its keys
  json["metadata"] = nlohmann::json::object();
  if (index.total_size) json["metadata"]["total_size"] = *index.total_size;
  json["weight_map"] = index.weight_map;
  return json.dump(2, ' ', true) + "\n";
}

}  // namespace microscale
