#include "checkpoint/dense_output.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/file.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_marker = 16 << 20;  // bytes

Failure refuse(const fs::path& output, std::string_view problem, std::string_view advice,
               ErrorCode code = ErrorCode::invalid_argument) {
  return {code,
          fmt::format("dequantize: the output '{}' {}; {}", output.string(), problem, advice)};
}

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

// Absolute, links followed as far as the path exists, no trailing slash.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path full = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) full = fs::absolute(path, error).lexically_normal();
  return full.has_filename() ? full : full.parent_path();
}

// Nothing, or what a run left that was killed before it had its marker.
bool holds_nothing(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename() != partial_path(dequantize_marker)) return false;
  }
  return !error;
}

// The same only for an input of which no shard has changed.
std::string marker_text(const ModelFolder& input) {
  std::string text = fmt::format("of {}\n", resolved(input.root).string());
  for (const ModelShard& shard : input.shards) {
    const FileIdentity& identity = shard.file.identity();
    text += fmt::format("{} {} {}\n", shard.name, identity.size, identity.modified_ns);
  }
  return text;
}

}  // namespace

std::optional<std::string> unfinished_run(const ModelFolder& model) {
  return unfinished_mark(model.other_files, model.left_out_files);
}

Status check_dense_output(const ModelFolder& input, bool input_is_folder, const fs::path& output) {
  if (output.empty()) return refuse(output, "has no name", "name a folder");
  const fs::path from = resolved(input.root), to = resolved(output);
  if (from == to)
    return refuse(output, "is the input, which is never written to", "name another folder");
  if (input_is_folder && is_within(to, from)) {
    return refuse(output, "is inside the input", "name a folder elsewhere");
  }
  if (is_within(from, to)) return refuse(output, "holds the input", "name a folder elsewhere");
  std::error_code error;
  if (!fs::exists(to, error)) return success();
  if (!fs::is_directory(to, error)) return refuse(output, "is a file", "name a folder");
  if (holds_nothing(to)) return success();
  const auto earlier = read_small_file(to / dequantize_marker, largest_marker);
  if (earlier && earlier.value() == marker_text(input)) return success();
  return refuse(output, "is not empty", "name a folder that does not exist yet");
}

Status begin_dense_output(const ModelFolder& input, bool input_is_folder, const fs::path& output,
                          std::uint64_t bytes) {
  if (Status free = check_dense_output(input, input_is_folder, output); !free) return free;
  const fs::path to = resolved(output);
  std::error_code error;
  fs::create_directories(to, error);
  if (error)
    return refuse(output, "cannot be made: " + error.message(), "check the path", ErrorCode::io);
  if (holds_nothing(to)) {
    const auto free = free_space(to);
    if (!free) return free.failure();
    if (free.value() < bytes) {
      return refuse(output,
                    fmt::format("needs {} bytes and the disk has {} free", bytes, free.value()),
                    "make room or name a folder elsewhere", ErrorCode::io);
    }
  }
  return write_file_atomically(to / dequantize_marker, marker_text(input));
}

Status finish_dense_output(const fs::path& output) {
  std::error_code error;
  fs::remove(output / dequantize_marker, error);
  if (error) {
    return Failure{ErrorCode::io,
                   fmt::format("dequantize: the model is complete but '{}' cannot be removed: {}",
                               (output / dequantize_marker).string(), error.message())};
  }
  return sync_folder(output);
}

}  // namespace microscale
