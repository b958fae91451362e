// The manifest of a model folder: a hash of each tensor's bytes and of each other file, made while
// they were written, so that a byte that changed since is found; and what the folder was made of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/journal.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/tensor_hashes.hpp"
#include "core/result.hpp"

namespace microscale {

inline constexpr const char* manifest_name = "microscale_manifest.json";
/// Longest manifest that is read, in bytes: a few million tensors.
inline constexpr std::uint64_t largest_manifest = std::uint64_t{1} << 30;

struct ManifestTensor {
  std::string file;  // that held it when it was written
  StoredType type = StoredType::u8;
  std::vector<std::int64_t> shape;
  TensorHash hash;  // of its bytes in the file
  bool operator==(const ManifestTensor&) const = default;
};

/// A file that was copied as a whole: a tokenizer, weights beside the model.
struct ManifestFile {
  std::uint64_t bytes = 0;
  TensorHash hash;
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  std::map<std::string, ManifestTensor> tensors;    // by name
  std::map<std::string, ManifestFile> other_files;  // by path within the folder
  Fingerprint made_of;                              // input and options; empty: not said
  bool operator==(const Manifest&) const = default;
};

/// One file of the folder, and the hashes of its tensors, as `tensors` has them.
struct HashedFile {
  std::string name;
  const std::vector<TensorEntry>* tensors = nullptr;
  std::vector<TensorHash> hashes;
};

struct ManifestContents {
  std::vector<HashedFile> files;
  std::map<std::string, ManifestFile> other_files;
  Fingerprint made_of;
};

/// The text of a manifest, a tensor or file a line. `tool`: what wrote the folder.
std::string manifest_text(const ManifestContents& contents, std::string_view tool);

/// A failure says what is wrong; it does not name the file. `unsupported`: of another version.
Result<Manifest> parse_manifest(std::string_view text);

/// Reads all of a file.
Result<ManifestFile> hash_file(const std::filesystem::path& path);

}  // namespace microscale
