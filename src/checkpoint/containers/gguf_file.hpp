// A GGUF file, or all parts of one that llama-gguf-split cut: opened, every header read, every
// tensor found. Tensor data is not touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/containers/gguf_header.hpp"
#include "checkpoint/file.hpp"
#include "core/result.hpp"

namespace microscale {

struct GgufPart {
  InputFile file;
  GgufHeader header;
};

struct GgufFile {
  /// One tensor: where it is. `entry` points into `parts[part].header`.
  struct Tensor {
    std::size_t part = 0;
    const GgufTensor* entry = nullptr;

    const std::string& name() const { return entry->name; }
  };

  std::vector<GgufPart> parts;  // at least one; the first has the model's metadata
  std::vector<Tensor> tensors;  // by name, bytewise

  GgufFile() = default;
  GgufFile(GgufFile&&) = default;
  GgufFile& operator=(GgufFile&&) = default;

  /// Null when there is no such tensor, or no such key in the first part.
  const Tensor* find(std::string_view name) const;
  const GgufValue* value(std::string_view key) const;
};

/// Opens `path`; where it is one part of several ("model-00002-of-00003.gguf", its split.count
/// above 1), all of them. A failure names the file and what is wrong: no GGUF, damaged, a part that
/// is missing or belongs elsewhere, a tensor in two parts or in none.
Result<GgufFile> open_gguf(const std::filesystem::path& path);

/// Bytes [first, first + out.size()) of a tensor's data.
Status read_gguf(const GgufFile& file, const GgufFile::Tensor& tensor, std::uint64_t first,
                 std::span<std::uint8_t> out);

}  // namespace microscale
