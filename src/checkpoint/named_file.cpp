#include "checkpoint/named_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "checkpoint/file.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

Failure refuse(const fs::path& path, std::string_view problem,
               ErrorCode code = ErrorCode::invalid_argument) {
  return {code, fmt::format("cannot write '{}': {}", path.string(), problem)};
}

}  // namespace

Result<fs::path> place_of_named_file(const fs::path& path) {
  if (!path.has_filename()) return refuse(path, "it is no name of a file; name one");
  std::error_code error;
  fs::path folder = fs::canonical(path.has_parent_path() ? path.parent_path() : ".", error);
  if (error || !fs::is_directory(folder, error)) {
    return refuse(path, "its folder does not exist; make it first", ErrorCode::io);
  }
  fs::path place = folder / path.filename();
  if (fs::is_symlink(fs::symlink_status(place, error))) {
    place = fs::canonical(place, error);
    if (error)
      return refuse(path, "it is a link to nothing; remove it or name another file", ErrorCode::io);
    folder = place.parent_path();
  }
  const fs::file_status status = fs::status(place, error);
  if (fs::is_directory(status)) return refuse(path, "it is a folder; name a file");
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return refuse(path, "it is a device, a pipe or a socket; name a file");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0 ||
      (fs::exists(status) && ::access(place.c_str(), W_OK) != 0)) {
    return refuse(path,
                  fmt::format("{}; check its permissions and those of its folder, or name another "
                              "file",
                              std::strerror(errno)),
                  ErrorCode::io);
  }
  return place;
}

Status write_named_file(const fs::path& path, std::string_view contents) {
  const auto place = place_of_named_file(path);
  if (!place) return place.failure();
  auto file = OutputFile::create_among_others(place.value(), contents.size());
  if (!file) return file.failure();
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(contents.data());
  if (Status written = file.value().write_at(0, {bytes, contents.size()}); !written) return written;
  return file.value().commit();
}

}  // namespace microscale
