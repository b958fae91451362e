#include "checkpoint/manifest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/file.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

using Kind = JsonEvent::Kind;

// Goes up when members get another meaning.
constexpr std::uint64_t manifest_version = 1;
constexpr const char* hash_name = "xxh3_128";
constexpr std::size_t hash_buffer = 1 << 20;  // bytes

// Fills a manifest from the events of its JSON: {"files": {file: {tensor: {dtype, shape, hash}}},
// "other_files": {file: {bytes, hash}}, "made_of": {what: text}}.
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
        --depth_;
        if (depth_ == tensor_depth && in_files()) return finish_tensor();
        if (depth_ == file_depth && in_other_files()) return finish_file();
        return std::nullopt;
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
  bool in_other_files() const { return keys_[1] == "other_files"; }

  std::optional<std::string> take_value(const JsonEvent& event) {
    if (depth_ == 0) {
      return event.kind == Kind::begin_object ? std::nullopt
                                              : std::optional<std::string>("it is no JSON object");
    }
    if (depth_ == 1) return take_top(event);
    if (keys_[1] == "made_of") return take_origin(event);
    if (in_other_files()) return take_file(event);
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
    } else if (in_other_files() || keys_[1] == "made_of") {
      if (event.kind != Kind::begin_object) return keys_[1] + " is no object";
    }
    return std::nullopt;
  }

  std::optional<std::string> take_origin(const JsonEvent& event) {
    if (depth_ != file_depth || event.kind != Kind::string) {
      return fmt::format("{} of made_of is no text", in_quotes(keys_[file_depth]));
    }
    manifest_.made_of.emplace_back(keys_[file_depth], *event.text);
    return std::nullopt;
  }

  std::optional<std::string> take_file(const JsonEvent& event) {
    const std::string& name = keys_[file_depth];
    if (depth_ == file_depth) {
      other_ = {};
      has_bytes_ = has_tensor_hash_ = false;
      if (event.kind == Kind::begin_object) return std::nullopt;
      return fmt::format("{} is no object", in_quotes(name));
    }
    const std::string& key = keys_[tensor_depth];
    if (depth_ == tensor_depth && key == "bytes" && event.kind == Kind::unsigned_integer) {
      has_bytes_ = true;
      other_.bytes = event.unsigned_integer;
      return std::nullopt;
    }
    const auto hash = depth_ == tensor_depth && key == "hash" && event.kind == Kind::string
                          ? tensor_hash_from(*event.text)
                          : std::nullopt;
    if (!hash) return fmt::format("the {} of {} is not what it should be", key, in_quotes(name));
    has_tensor_hash_ = true;
    other_.hash = *hash;
    return std::nullopt;
  }

  // A name that leads out of the folder would have verify read what lies there.
  static std::optional<std::string> problem_with_name(const std::string& name) {
    const std::filesystem::path path(name);
    const bool inside = !path.empty() && path.is_relative() && path.has_filename() &&
                        std::find(path.begin(), path.end(), "..") == path.end() &&
                        name.find('\0') == name.npos;
    if (inside) return std::nullopt;
    return fmt::format("{} is no file within the folder", in_quotes(name));
  }

  std::optional<std::string> finish_file() {
    const std::string& name = keys_[file_depth];
    if (auto problem = problem_with_name(name)) return problem;
    if (!has_bytes_ || !has_tensor_hash_) {
      return fmt::format("{} lacks bytes or hash", in_quotes(name));
    }
    if (manifest_.other_files.emplace(name, other_).second) return std::nullopt;
    return fmt::format("{} is listed twice", in_quotes(name));
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
    if (auto problem = problem_with_name(keys_[file_depth])) return problem;
    if (!has_type_ || !has_shape_ || !has_tensor_hash_) {
      return fmt::format("{} lacks dtype, shape or hash", in_quotes(name));
    }
    tensor_.file = keys_[file_depth];
    if (!manifest_.tensors.emplace(name, std::move(tensor_)).second) {
      return fmt::format("{} is in two files", in_quotes(name));
    }
    return std::nullopt;
  }

  Manifest& manifest_;
  std::size_t depth_ = 0;            // open containers
  std::array<std::string, 6> keys_;  // of the value at each depth
  ManifestTensor tensor_;            // being read
  ManifestFile other_;               // the same
  bool has_version_ = false, has_hash_ = false, has_files_ = false, other_version_ = false;
  bool has_type_ = false, has_shape_ = false, has_tensor_hash_ = false, has_bytes_ = false;
};

// Whether it says that it is of another version, wherever and whatever else it holds.
bool says_other_version(std::string_view text) {
  std::size_t depth = 0;
  bool here = false, other = false;
  const Status read = read_json(text, [&](const JsonEvent& event) -> std::optional<std::string> {
    const bool end = event.kind == Kind::end_object || event.kind == Kind::end_array;
    if (end) --depth;
    if (event.kind == Kind::key) {
      here = depth == 1 && *event.text == "manifest";
      return std::nullopt;
    }
    if (depth == 1 && here && !end) {
      other = event.kind != Kind::unsigned_integer || event.unsigned_integer != manifest_version;
    }
    if (event.kind == Kind::begin_object || event.kind == Kind::begin_array) ++depth;
    return std::nullopt;
  });
  return read.ok() && other;
}

std::string json_string(std::string_view text) { return nlohmann::json(text).dump(); }

}  // namespace

std::string manifest_text(const ManifestContents& contents, std::string_view tool) {
  std::string text = fmt::format("{{\n\"manifest\": {},\n\"tool\": {},\n\"hash\": \"{}\"",
                                 manifest_version, json_string(tool), hash_name);
  const auto open = [&](std::string_view member) {
    text += fmt::format(",\n\"{}\": {{", member);
    return "\n";
  };
  if (!contents.made_of.empty()) {
    const char* before = open("made_of");
    for (const auto& [what, value] : contents.made_of) {
      text += fmt::format("{}{}: {}", before, json_string(what), json_string(value));
      before = ",\n";
    }
    text += "\n}";
  }
  const char* before_file = open("files");
  for (const HashedFile& file : contents.files) {
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
  text += "\n}";
  if (!contents.other_files.empty()) {
    const char* before = open("other_files");
    for (const auto& [name, file] : contents.other_files) {
      text += fmt::format("{}{}: {{\"bytes\": {}, \"hash\": \"{}\"}}", before, json_string(name),
                          file.bytes, to_string(file.hash));
      before = ",\n";
    }
    text += "\n}";
  }
  return text + "\n}\n";
}

Result<Manifest> parse_manifest(std::string_view text) {
  Manifest manifest;
  ManifestEvents events(manifest);
  const Status read = read_json(text, [&](const JsonEvent& event) { return events.take(event); });
  if (!read && events.other_version()) {
    return Failure{ErrorCode::unsupported, read.failure().message};
  }
  if (!read && says_other_version(text)) {
    return Failure{ErrorCode::unsupported, "it is of another version"};
  }
  if (!read) return read.failure();
  if (!events.complete()) {
    return Failure{ErrorCode::bad_input, "it lacks manifest, hash or files"};
  }
  return manifest;
}

Result<ManifestFile> hash_file(const std::filesystem::path& path) {
  auto file = InputFile::open(path);
  if (!file) return file.failure();
  StreamHash hash;
  std::vector<std::uint8_t> buffer(std::min<std::uint64_t>(file.value().size(), hash_buffer));
  for (std::uint64_t at = 0; at < file.value().size();) {
    const auto part =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), file.value().size() - at));
    if (Status read = file.value().read_at(at, part); !read) return read.failure();
    hash.add(part);
    at += part.size();
  }
  return ManifestFile{file.value().size(), hash.finish()};
}

}  // namespace microscale
