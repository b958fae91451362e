// What an interrupted conversion leaves behind so that another run can finish it: a file in the
// output folder that says what was being converted with which options, and which output files are
// complete. One JSON object a line, each on the disk before the work goes on; a line cut short by a
// crash does not count.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/tensor_hashes.hpp"
#include "core/result.hpp"

namespace microscale {

inline constexpr std::string_view journal_name = ".microscale-journal";

/// Everything that the bytes of the output depend on, by name ("option format", "input
/// model.safetensors"). Two runs with equal fingerprints write equal files.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;

/// The first thing that changed between two of them, in words; empty: nothing.
std::string difference(const Fingerprint& recorded, const Fingerprint& now);

struct FinishedFile {
  std::string name;                     // within the output folder
  std::uint64_t size = 0;               // bytes
  std::string digest;                   // sample_digest of it
  std::string report;                   // what was found while making it, as one JSON value
  std::vector<TensorHash> hashes = {};  // of its tensors, in the order of the file
};

/// XXH3-128 in hexadecimal.
std::string digest_of(std::string_view bytes);

/// Digest of a file's size and 32 pieces of 64 KiB spread evenly over it; of all of a file below 2
/// MiB.
Result<std::string> sample_digest(const std::filesystem::path& path);

/// Whether the file is there with the size and the sample that were recorded.
bool is_intact(const std::filesystem::path& folder, const FinishedFile& file);

class Journal {
 public:
  /// Begins one in `folder`, which is an existing folder without one.
  static Result<Journal> start(const std::filesystem::path& folder, const Fingerprint& fingerprint);

  /// Opens the one in `folder` and hands every finished file to `visit`. A failure when it is of
  /// another conversion (saying what differs), damaged, or in use by another process.
  static Result<Journal> resume(const std::filesystem::path& folder, const Fingerprint& fingerprint,
                                const std::function<Status(FinishedFile)>& visit);

  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&& other) noexcept;
  ~Journal();

  /// Returns once the line is on the disk. One caller at a time.
  Status record(const FinishedFile& file);

  /// The conversion is complete: takes the journal away.
  Status remove();

 private:
  Journal(std::filesystem::path path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  Status append(std::string line);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace microscale
