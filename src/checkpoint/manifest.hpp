// The manifest of a model folder: a hash of each tensor's bytes, made while they were written, so
// that a byte that changed since is found.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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

/// By tensor name.
using Manifest = std::map<std::string, ManifestTensor>;

/// One file of the folder, and the hashes of its tensors, as `tensors` has them.
struct HashedFile {
  std::string name;
  const std::vector<TensorEntry>* tensors = nullptr;
  std::vector<TensorHash> hashes;
};

/// The text of a manifest, a tensor a line. `tool`: what wrote the folder.
std::string manifest_text(const std::vector<HashedFile>& files, std::string_view tool);

/// A failure says what is wrong; it does not name the file. `unsupported`: of another version.
Result<Manifest> parse_manifest(std::string_view text);

}  // namespace microscale
