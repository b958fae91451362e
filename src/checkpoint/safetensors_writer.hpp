// Lays out a safetensors file: which bytes its header has and where each tensor goes, before any
// tensor exists. The file is byte for byte what Python's `save_file` writes: tensors by element
// type (widest rank first), then by name; the header padded with spaces to a multiple of 8.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/safetensors.hpp"

namespace microscale {

struct PlannedTensor {
  std::string name;
  StoredType type = StoredType::u8;
  std::vector<std::int64_t> shape;
};

struct SafetensorsLayout {
  std::string header;                // from byte 0 of the file: length, JSON and padding
  std::vector<TensorEntry> tensors;  // in file order; offsets from the start of the file
  std::uint64_t file_size = 0;       // bytes, header included
};

/// Readers of Hugging Face models want to see this.
inline const SafetensorsMetadata pytorch_metadata{{"format", "pt"}};

/// Whether transformers reads a file with this metadata: it has none, or a format that is known.
bool has_known_format(const SafetensorsMetadata& metadata);

/// Fails on whatever the strict reader would refuse (empty or duplicate names, sizes that overflow,
/// ...). Metadata is written in the order of its keys; without any there is no `__metadata__`.
Result<SafetensorsLayout> plan_safetensors(std::vector<PlannedTensor> tensors,
                                           SafetensorsMetadata metadata = pytorch_metadata);

}  // namespace microscale
