// Files as the converter needs them: positional reads and writes without a shared cursor (so any
// number of threads may use one file), and outputs that carry their final name only once they are
// complete. Nothing is memory-mapped: a file truncated under a mapping kills the process, and
// mapped pages count against the memory limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace microscale {

/// What tells a changed file from an unchanged one without reading it.
struct FileIdentity {
  std::uint64_t size = 0;        // bytes
  std::int64_t modified_ns = 0;  // nanoseconds since 1970
  bool operator==(const FileIdentity&) const = default;
};

/// A regular file open for reading. Movable; every const member may be called from many threads.
class InputFile {
 public:
  /// Follows symbolic links; anything but a regular file is a failure.
  static Result<InputFile> open(const std::filesystem::path& path);

  /// A file of `size` bytes that is to be written: all that is known of it is its size, and reading
  /// from it fails.
  static InputFile planned(const std::filesystem::path& path, std::uint64_t size);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::filesystem::path& path() const { return path_; }
  /// Size and time of the last change when the file was opened.
  const FileIdentity& identity() const { return identity_; }
  std::uint64_t size() const { return identity_.size; }

  /// Fills `out` from byte `offset` on, all of it or a failure. A file that has become shorter
  /// since it was opened is a failure that says so.
  Status read_at(std::uint64_t offset, std::span<std::uint8_t> out) const;

  /// Hints for the page cache: start reading this range; this range is not needed again.
  void will_need(std::uint64_t offset, std::uint64_t length) const;
  void dont_need(std::uint64_t offset, std::uint64_t length) const;

 private:
  InputFile(std::filesystem::path path, int descriptor, FileIdentity identity)
      : path_(std::move(path)), descriptor_(descriptor), identity_(identity) {}

  std::filesystem::path path_;
  int descriptor_ = -1;
  FileIdentity identity_;
};

/// A file written under `<final>.partial` that gets its final name in commit(). Destroyed before
/// that, it removes what it wrote; killed before that, it leaves a `.partial`, which the next
/// create() truncates.
class OutputFile {
 public:
  /// With `size`, that many bytes are reserved on the disk first, so that a lack of room shows at
  /// once.
  static Result<OutputFile> create(const std::filesystem::path& final_path,
                                   std::optional<std::uint64_t> size = std::nullopt);

  /// The same for a folder that is not ours: written under a name that no file there has.
  static Result<OutputFile> create_among_others(const std::filesystem::path& final_path,
                                                std::optional<std::uint64_t> size = std::nullopt);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  const std::filesystem::path& path() const { return final_path_; }

  /// Writes all of `bytes` from byte `offset` on. May be called from many threads at once.
  Status write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes) const;

  /// What was written from byte `offset` on, all of it or a failure.
  Status read_at(std::uint64_t offset, std::span<std::uint8_t> out) const;

  /// Starts writing this range to the disk and lets its pages leave the cache (only a hint).
  void flush_range(std::uint64_t offset, std::uint64_t length) const;

  /// Makes contents and final name durable. Call once, when no thread writes any more.
  Status commit();

 private:
  OutputFile(std::filesystem::path final_path, std::filesystem::path partial, int descriptor)
      : final_path_(std::move(final_path)), partial_(std::move(partial)), descriptor_(descriptor) {}
  static Result<OutputFile> opened(OutputFile file, std::optional<std::uint64_t> size);
  void discard();

  std::filesystem::path final_path_, partial_;
  int descriptor_ = -1;
};

/// What OutputFile::create() writes to: `<final>.partial` beside it; a shorter name if too long.
std::filesystem::path partial_path(const std::filesystem::path& final_path);

/// Old contents or new ones under `path`, never a mixture, whatever happens meanwhile.
Status write_file_atomically(const std::filesystem::path& path, std::string_view contents);

/// The whole file, refused when it holds more than `max_bytes`.
Result<std::string> read_small_file(const std::filesystem::path& path, std::uint64_t max_bytes);

/// Bytes an unprivileged user may still write to the file system that holds (or will hold) `path`.
Result<std::uint64_t> free_space(const std::filesystem::path& path);

/// Makes renames and new names in `folder` survive a power cut.
Status sync_folder(const std::filesystem::path& folder);

}  // namespace microscale
