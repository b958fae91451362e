#include "checkpoint/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace microscale {
namespace {

namespace fs = std::filesystem;

// "cannot read '/a/b': Permission denied", with what to do where that is plain.
Failure io_failure(const char* verb, const fs::path& path, int error) {
  std::string advice;
  if (error == ENOSPC || error == EDQUOT) advice = "; make room or choose another output folder";
  if (error == EACCES || error == EPERM) advice = "; check its permissions";
  if (error == ENOENT) advice = "; check the path";
  if (error == EMFILE) advice = "; raise the limit of open files (ulimit -n)";
  if (error == EROFS) advice = "; name a file on a disk that can be written to";
  return {ErrorCode::io,
          fmt::format("cannot {} '{}': {}{}", verb, path.string(), std::strerror(error), advice)};
}

// One system call moves at most about 2 GiB; a multiple of the page keeps the next one aligned.
constexpr std::size_t largest_transfer = std::size_t{1} << 30;

template <class Call>
auto retry_interrupted(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

fs::path folder_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

Failure no_room(const fs::path& path, std::uint64_t size) {
  const auto free = free_space(path);
  const std::string available = free ? fmt::format(", which has {} bytes free", free.value()) : "";
  return {
      ErrorCode::io,
      fmt::format("cannot write '{}': its {} bytes do not fit on the disk{}; make room or choose "
                  "another output folder",
                  path.string(), size, available)};
}

// Reserves the blocks of a new file. Where the file system cannot, at least compares with what is
// free.
Status reserve(int descriptor, const fs::path& path, std::uint64_t size) {
  if (size == 0) return success();
  if (size > static_cast<std::uint64_t>(INT64_MAX)) return no_room(path, size);
  const int result =
      retry_interrupted([&] { return ::fallocate(descriptor, 0, 0, static_cast<off_t>(size)); });
  if (result == 0) return success();
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) return no_room(path, size);
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) {
    return io_failure("reserve room for", path, errno);
  }
  const auto free = free_space(path);
  if (free && free.value() < size) return no_room(path, size);
  return success();
}

// `end`: where the file ended before `out` was full; 0: it did not.
Status read_all(int descriptor, const fs::path& path, std::uint64_t offset,
                std::span<std::uint8_t> out, std::uint64_t& end) {
  while (!out.empty()) {
    const std::size_t length = std::min(out.size(), largest_transfer);
    const ssize_t got = retry_interrupted(
        [&] { return ::pread(descriptor, out.data(), length, static_cast<off_t>(offset)); });
    if (got < 0) return io_failure("read", path, errno);
    if (got == 0) {
      end = offset;
      return Failure{ErrorCode::io, fmt::format("'{}' ends at byte {}", path.string(), offset)};
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return success();
}

}  // namespace

Result<InputFile> InputFile::open(const fs::path& path) {
  // Without O_NONBLOCK, opening a pipe would wait for somebody to write to it.
  const int descriptor =
      retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (descriptor < 0) return io_failure("open", path, errno);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    const int error = errno;
    ::close(descriptor);
    return io_failure("inspect", path, error);
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return Failure{ErrorCode::io,
                   fmt::format("cannot open '{}': it is {}; name a regular file", path.string(),
                               S_ISDIR(status.st_mode) ? "a folder" : "not a file")};
  }
  const FileIdentity identity{
      static_cast<std::uint64_t>(status.st_size),
      static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec};
  return InputFile(path, descriptor, identity);
}

InputFile InputFile::planned(const fs::path& path, std::uint64_t size) {
  return InputFile(path, -1, {size, 0});
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      identity_(other.identity_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  if (this == &other) return *this;
  if (descriptor_ >= 0) ::close(descriptor_);
  path_ = std::move(other.path_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  identity_ = other.identity_;
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status InputFile::read_at(std::uint64_t offset, std::span<std::uint8_t> out) const {
  if (offset > size() || out.size() > size() - offset) {
    return Failure{
        ErrorCode::bad_input,
        fmt::format("cannot read {} bytes at byte {} of '{}': the file has only {} bytes",
                    out.size(), offset, path_.string(), size())};
  }
  std::uint64_t end = 0;
  Status read = read_all(descriptor_, path_, offset, out, end);
  if (read || end == 0) return read;
  return Failure{ErrorCode::bad_input,
                 fmt::format("'{}' became shorter while it was read: {} bytes when opened, now "
                             "it ends at byte {}; leave the input alone and start again",
                             path_.string(), size(), end)};
}

void InputFile::will_need(std::uint64_t offset, std::uint64_t length) const {
  ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(length),
                  POSIX_FADV_WILLNEED);
}

void InputFile::dont_need(std::uint64_t offset, std::uint64_t length) const {
  ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(length),
                  POSIX_FADV_DONTNEED);
}

fs::path partial_path(const fs::path& final_path) {
  constexpr std::string_view ending = ".partial";
  constexpr std::size_t longest = 255;  // bytes of a name, on every usual file system
  const std::string name = final_path.filename().string();
  if (name.size() + ending.size() <= longest) return fs::path(final_path) += ending;
  // The same for the same name, so that a later run takes it over: FNV-1a.
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return final_path.parent_path() / fmt::format("long-name-{:016x}{}", hash, ending);
}

Result<OutputFile> OutputFile::create(const fs::path& final_path,
                                      std::optional<std::uint64_t> size) {
  const fs::path partial = partial_path(final_path);
  // O_NOFOLLOW: a link somebody left under this name must not lead the output elsewhere.
  const int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
  const int descriptor = retry_interrupted([&] { return ::open(partial.c_str(), flags, 0666); });
  if (descriptor < 0) return io_failure("create", partial, errno);
  return opened(OutputFile(final_path, partial, descriptor), size);
}

Result<OutputFile> OutputFile::create_among_others(const fs::path& final_path,
                                                   std::optional<std::uint64_t> size) {
  for (int attempt = 0;; ++attempt) {
    const fs::path partial =
        folder_of(final_path) / fmt::format(".microscale-{}-{}.partial", ::getpid(), attempt);
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    const int descriptor = retry_interrupted([&] { return ::open(partial.c_str(), flags, 0666); });
    if (descriptor >= 0) return opened(OutputFile(final_path, partial, descriptor), size);
    if (errno != EEXIST) return io_failure("create", final_path, errno);
  }
}

Result<OutputFile> OutputFile::opened(OutputFile file, std::optional<std::uint64_t> size) {
  if (size) {
    if (Status reserved = reserve(file.descriptor_, file.final_path_, *size); !reserved) {
      return reserved.failure();
    }
  }
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : final_path_(std::move(other.final_path_)),
      partial_(std::move(other.partial_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  if (this == &other) return *this;
  discard();
  final_path_ = std::move(other.final_path_);
  partial_ = std::move(other.partial_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::discard() {
  if (descriptor_ < 0) return;
  ::close(std::exchange(descriptor_, -1));
  ::unlink(partial_.c_str());
}

Status OutputFile::write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes) const {
  const std::uint64_t end = offset + bytes.size();
  while (!bytes.empty()) {
    const std::size_t length = std::min(bytes.size(), largest_transfer);
    const ssize_t put = retry_interrupted(
        [&] { return ::pwrite(descriptor_, bytes.data(), length, static_cast<off_t>(offset)); });
    if (put < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
      return no_room(final_path_, end);
    }
    if (put < 0) return io_failure("write", final_path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return success();
}

Status OutputFile::read_at(std::uint64_t offset, std::span<std::uint8_t> out) const {
  std::uint64_t end = 0;
  return read_all(descriptor_, partial_, offset, out, end);
}

void OutputFile::flush_range(std::uint64_t offset, std::uint64_t length) const {
  ::sync_file_range(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(length),
                    SYNC_FILE_RANGE_WRITE);
  ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(length),
                  POSIX_FADV_DONTNEED);
}

Status OutputFile::commit() {
  // Some file systems report a failed write only here; the name must then not appear.
  if (retry_interrupted([&] { return ::fsync(descriptor_); }) != 0) {
    return io_failure("finish writing", final_path_, errno);
  }
  if (::rename(partial_.c_str(), final_path_.c_str()) != 0) {
    return io_failure("give its final name to", partial_, errno);
  }
  ::close(std::exchange(descriptor_, -1));
  return sync_folder(folder_of(final_path_));
}

Status write_file_atomically(const fs::path& path, std::string_view contents) {
  auto file = OutputFile::create(path, contents.size());
  if (!file) return file.failure();
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(contents.data());
  if (Status written = file.value().write_at(0, {bytes, contents.size()}); !written) return written;
  return file.value().commit();
}

Result<std::string> read_small_file(const fs::path& path, std::uint64_t max_bytes) {
  auto file = InputFile::open(path);
  if (!file) return file.failure();
  const std::uint64_t size = file.value().size();
  if (size > max_bytes) {
    return Failure{ErrorCode::bad_input,
                   fmt::format("'{}' has {} bytes, more than the {} a file of its kind may have; "
                               "check that it is the right file",
                               path.string(), size, max_bytes)};
  }
  std::string contents(size, '\0');
  auto* bytes = reinterpret_cast<std::uint8_t*>(contents.data());
  if (Status read = file.value().read_at(0, {bytes, contents.size()}); !read) return read.failure();
  return contents;
}

Result<std::uint64_t> free_space(const fs::path& path) {
  fs::path existing = path.empty() ? fs::path(".") : path;
  std::error_code ignored;
  while (!fs::exists(existing, ignored)) {
    const fs::path parent = folder_of(existing);
    if (parent == existing) break;
    existing = parent;
  }
  struct statvfs status {};
  if (retry_interrupted([&] { return ::statvfs(existing.c_str(), &status); }) != 0) {
    return io_failure("find the free space at", existing, errno);
  }
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

Status sync_folder(const fs::path& folder) {
  const int descriptor =
      retry_interrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) return io_failure("open", folder, errno);
  const int result = retry_interrupted([&] { return ::fsync(descriptor); });
  const int error = errno;
  ::close(descriptor);
  // A file system that cannot do this for folders says EINVAL; nothing more can be done there.
  if (result != 0 && error != EINVAL) return io_failure("make durable the names in", folder, error);
  return success();
}

}  // namespace microscale
