#include "checkpoint/manifest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/json.hpp"

namespace microscale {
namespace {

using Kind = JsonEvent::Kind;

// Goes up when members get another meaning.
constexpr std::uint64_t manifest_version = 1;
constexpr const char* hash_name = "xxh3_128";

// Fills a manifest from the events of its JSON: {"files": {file: {tensor: {dtype, shape, hash}}}}.
class ManifestEvents {
 public:
  explicit ManifestEvents(Manifest& manifest) : manifest_(manifest) {}
  bool complete() const { return has_version_ && has_hash_ && has_files_; }
  bool other_version() const { return other_version_; }

  std::optional<std::string> take(const JsonEvent& event) {
    switch (event.kind) {
      case Kind::key:
        if (depth_ < keys_.size()) keys_[depth_] = std::move(*event.text);
        return std::nullopt;
      case Kind::end_object:
      case Kind::end_array:
        return --depth_ == tensor_depth && in_files() ? finish_tensor() : std::nullopt;
      default:
        break;
    }
    auto problem = take_value(event);
    if (event.kind == Kind::begin_object || event.kind == Kind::begin_array) ++depth_;
    return problem;
  }

 private:
  // Open containers around a file's object, a tensor's object, its members, and its dimensions.
  static constexpr std::size_t file_depth = 2, tensor_depth = 3, member_depth = 4, shape_depth = 5;

  bool in_files() const { return keys_[1] == "files"; }

  std::optional<std::string> take_value(const JsonEvent& event) {
    if (depth_ == 0) {
      return event.kind == Kind::begin_object ? std::nullopt
                                              : std::optional<std::string>("it is no JSON object");
    }
    if (depth_ == 1) return take_top(event);
    if (!in_files()) return std::nullopt;
    if (depth_ == file_depth || depth_ == tensor_depth) {
      tensor_ = {};
      has_type_ = has_shape_ = has_tensor_hash_ = false;
      if (event.kind == Kind::begin_object) return std::nullopt;
      return fmt::format("{} is no object", in_quotes(keys_[depth_]));
    }
    return depth_ == member_depth ? take_member(event) : take_dimension(event);
  }

  std::optional<std::string> take_top(const JsonEvent& event) {
    if (keys_[1] == "manifest") {
      has_version_ = true;
      other_version_ =
          event.kind != Kind::unsigned_integer || event.unsigned_integer != manifest_version;
      if (other_version_) return "it is of another version";
    } else if (keys_[1] == "hash") {
      has_hash_ = true;
      other_version_ = event.kind != Kind::string || *event.text != hash_name;
      if (other_version_) return fmt::format("its hashes are not {}", hash_name);
    } else if (keys_[1] == "files") {
      has_files_ = true;
      if (event.kind != Kind::begin_object) return "files is no object";
    }
    return std::nullopt;
  }

  std::optional<std::string> take_member(const JsonEvent& event) {
    const std::string& key = keys_[member_depth];
    const auto bad = [&] {
      return fmt::format("the {} of {} is not what it should be", key,
                         in_quotes(keys_[tensor_depth]));
    };
    if (key == "shape") {
      has_shape_ = true;
      return event.kind == Kind::begin_array ? std::nullopt : std::optional(bad());
    }
    if (event.kind != Kind::string) return bad();
    if (key == "dtype") {
      const auto type = stored_type_from_name(*event.text);
      if (!type) return bad();
      has_type_ = true;
      tensor_.type = *type;
    } else if (key == "hash") {
      const auto hash = tensor_hash_from(*event.text);
      if (!hash) return bad();
      has_tensor_hash_ = true;
      tensor_.hash = *hash;
    } else {
      return bad();
    }
    return std::nullopt;
  }

  std::optional<std::string> take_dimension(const JsonEvent& event) {
    if (depth_ != shape_depth || event.kind != Kind::unsigned_integer ||
        event.unsigned_integer > max_safetensors_integer ||
        tensor_.shape.size() == max_safetensors_rank) {
      return fmt::format("the shape of {} is not what it should be",
                         in_quotes(keys_[tensor_depth]));
    }
    tensor_.shape.push_back(static_cast<std::int64_t>(event.unsigned_integer));
    return std::nullopt;
  }

  std::optional<std::string> finish_tensor() {
    const std::string& name = keys_[tensor_depth];
    if (!has_type_ || !has_shape_ || !has_tensor_hash_) {
      return fmt::format("{} lacks dtype, shape or hash", in_quotes(name));
    }
    tensor_.file = keys_[file_depth];
    if (!manifest_.emplace(name, std::move(tensor_)).second) {
      return fmt::format("{} is in two files", in_quotes(name));
    }
    return std::nullopt;
  }

  Manifest& manifest_;
  std::size_t depth_ = 0;            // open containers
  std::array<std::string, 6> keys_;  // of the value at each depth
  ManifestTensor tensor_;            // being read
  bool has_version_ = false, has_hash_ = false, has_files_ = false, other_version_ = false;
  bool has_type_ = false, has_shape_ = false, has_tensor_hash_ = false;
};

std::string json_string(std::string_view text) { return nlohmann::json(text).dump(); }

}  // namespace

std::string manifest_text(const std::vector<HashedFile>& files, std::string_view tool) {
  std::string text =
      fmt::format("{{\n\"manifest\": {},\n\"tool\": {},\n\"hash\": \"{}\",\n\"files\": {{",
                  manifest_version, json_string(tool), hash_name);
  const char* before_file = "\n";
  for (const HashedFile& file : files) {
    text += fmt::format("{}{}: {{", before_file, json_string(file.name));
    before_file = ",\n";
    const char* before_tensor = "\n";
    for (std::size_t i = 0; i < file.tensors->size(); ++i) {
      const TensorEntry& tensor = (*file.tensors)[i];
      text += fmt::format("{}{}: {{\"dtype\": \"{}\", \"shape\": [{}], \"hash\": \"{}\"}}",
                          before_tensor, json_string(tensor.name), to_string(tensor.type),
                          fmt::join(tensor.shape, ", "), to_string(file.hashes[i]));
      before_tensor = ",\n";
    }
    text += "\n}";
  }
  return text + "\n}\n}\n";
}

Result<Manifest> parse_manifest(std::string_view text) {
  Manifest manifest;
  ManifestEvents events(manifest);
  const Status read = read_json(text, [&](const JsonEvent& event) { return events.take(event); });
  if (!read && events.other_version()) {
    return Failure{ErrorCode::unsupported, read.failure().message};
  }
  if (!read) return read.failure();
  if (!events.complete()) {
    return Failure{ErrorCode::bad_input, "it lacks manifest, hash or files"};
  }
  return manifest;
}

}  // namespace microscale
