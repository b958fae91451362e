#include "checkpoint/output_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "checkpoint/file.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t copy_piece = 1 << 20;  // bytes
constexpr std::uint64_t largest_marker = 16 << 20;

Failure refuse(ErrorCode code, std::string message) { return {code, std::move(message)}; }

bool is_inside(const fs::path& folder, const fs::path& path) {
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path full = fs::weakly_canonical(fs::absolute(path), error);
  if (error) full = fs::absolute(path).lexically_normal();
  return full.has_filename() ? full : full.parent_path();  // no trailing slash
}

}  // namespace

std::string fingerprint(std::string_view operation, const ModelFolder& input) {
  std::string text = fmt::format("{} of {}\n", operation, resolved(input.root).string());
  for (const ModelShard& shard : input.shards) {
    const FileIdentity& identity = shard.file.identity();
    text += fmt::format("{} {} {}\n", shard.name, identity.size, identity.modified_ns);
  }
  return text;
}

Status begin_output(std::string_view operation, const fs::path& input, const fs::path& output,
                    const std::string& fingerprint) {
  const fs::path from = resolved(input), to = resolved(output);
  std::error_code error;
  if (from == to || (fs::is_directory(from, error) && is_inside(from, to))) {
    return refuse(ErrorCode::invalid_argument,
                  fmt::format("{}: the output '{}' is the input or lies inside it; choose a folder "
                              "elsewhere",
                              operation, output.string()));
  }
  if (fs::exists(to, error) && !fs::is_directory(to, error)) {
    return refuse(ErrorCode::invalid_argument,
                  fmt::format("{}: the output '{}' is a file; name a folder", operation,
                              output.string()));
  }
  fs::create_directories(to, error);
  if (error) {
    return refuse(ErrorCode::io, fmt::format("{}: cannot make the folder '{}': {}", operation,
                                             output.string(), error.message()));
  }
  const fs::path marker = to / unfinished_marker;
  if (!fs::is_empty(to, error)) {
    const auto earlier = read_small_file(marker, largest_marker);
    if (!earlier || earlier.value() != fingerprint) {
      return refuse(ErrorCode::invalid_argument,
                    fmt::format("{}: the output folder '{}' is not empty; choose a new one or empty it",
                                operation, output.string()));
    }
  }
  return write_file_atomically(marker, fingerprint);
}

Status finish_output(const fs::path& output) {
  std::error_code error;
  if (!fs::remove(output / unfinished_marker, error) && error) {
    return refuse(ErrorCode::io, fmt::format("cannot remove '{}': {}; the model is complete",
                                             (output / unfinished_marker).string(), error.message()));
  }
  return sync_folder(output);
}

Status check_room(std::string_view operation, const fs::path& output, std::uint64_t bytes) {
  const auto free = free_space(output);
  if (!free) return free.failure();
  if (free.value() >= bytes) return success();
  return refuse(ErrorCode::io,
                fmt::format("{}: {} bytes are to be written to '{}' and {} are free; make room or choose "
                            "another folder",
                            operation, bytes, output.string(), free.value()));
}

Status copy_file_atomically(const fs::path& from, const fs::path& to) {
  auto input = InputFile::open(from);
  if (!input) return input.failure();
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  const std::uint64_t size = input.value().size();
  auto output = OutputFile::create(to, size);
  if (!output) return output.failure();
  std::vector<std::uint8_t> piece;
  for (std::uint64_t at = 0; at < size; at += copy_piece) {
    piece.resize(static_cast<std::size_t>(std::min(copy_piece, size - at)));
    if (Status read = input.value().read_at(at, piece); !read) return read;
    if (Status written = output.value().write_at(at, piece); !written) return written;
  }
  return output.value().commit();
}

}  // namespace microscale
