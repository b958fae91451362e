// What an interrupted conversion leaves behind so that another run can finish it: a file in the
// output folder that says what was being converted with which options, and which output files are
// complete. One JSON object a line, each on the disk before the work goes on; a line cut short by a
// crash does not count. Of processes that convert one model together (checkpoint/ranks.hpp) each
// but the first has a journal of its own, which the first takes into its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
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

/// As one line, and back.
std::string to_text(const Fingerprint& fingerprint);
Fingerprint fingerprint_from(const std::string& text);

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

using VisitFinished = std::function<Status(FinishedFile)>;

class Journal {
 public:
  /// Begins that of a rank in `folder`, which is an existing folder without it.
  static Result<Journal> start(const std::filesystem::path& folder, const Fingerprint& fingerprint,
                               int rank = 0);

  /// Opens rank 0's in `folder`, takes those of other ranks into it, and hands every finished file
  /// to `visit`. A failure when one is of another conversion (saying what differs), damaged, or in
  /// use by another process.
  static Result<Journal> resume(const std::filesystem::path& folder, const Fingerprint& fingerprint,
                                const VisitFinished& visit);

  /// What rank 0's journal in `folder` says was being converted; nothing where there is none that
  /// can be read.
  static std::optional<Fingerprint> recorded(const std::filesystem::path& folder);

  /// Hands every file that rank 0's journal names to `visit`, while rank 0 has it open.
  static Status read(const std::filesystem::path& folder, const Fingerprint& fingerprint,
                     const VisitFinished& visit);

  /// Takes the journals of ranks that have ended into this one, handing each file to `visit`.
  Status absorb_others(const Fingerprint& fingerprint, const VisitFinished& visit);

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
