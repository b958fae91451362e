// The strict reader of GGUF headers: bytes in, checked metadata and a checked table of tensors out.
//
// A file is "GGUF", the version (2 or 3), the number of tensors and of metadata values, those
// values, the tensors' descriptions, padding, and the tensors' bytes, each at a multiple of
// general.alignment (32 where the file does not say). Beyond what the format says, these are
// refused: names or keys twice, empty ones or such that are no UTF-8, more than 4 dimensions,
// arrays within arrays more than 4 deep, overlapping tensors, bytes of data that belong to no
// tensor, and headers above 256 MiB. No
// allocation follows a number that has not been checked against the size of the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/containers/gguf_type.hpp"
#include "checkpoint/containers/gguf_value.hpp"
#include "checkpoint/file.hpp"
#include "core/result.hpp"

namespace microscale {

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<std::int64_t> shape;  // elements, rows along the LAST dimension: the file's, reversed
  std::uint64_t begin = 0;          // bytes from the start of the FILE
  std::uint64_t end = 0;            // one past the last byte

  std::uint64_t bytes() const { return end - begin; }
  bool operator==(const GgufTensor&) const = default;
};

struct GgufHeader {
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;     // bytes
  std::uint64_t data_start = 0;     // where offsets of tensors begin to count; padded
  std::vector<GgufTensor> tensors;  // in the order of the file
  std::vector<std::pair<std::string, GgufValue>> metadata;  // in the order of the file
  std::vector<std::uint8_t> bytes;  // of the header itself: what the metadata's values view

  GgufHeader() = default;
  GgufHeader(GgufHeader&&) = default;
  GgufHeader& operator=(GgufHeader&&) = default;

  /// Null when the file says nothing about it.
  const GgufValue* find(std::string_view key) const;
};

inline constexpr std::uint64_t max_gguf_header = std::uint64_t{256} << 20;  // bytes
inline constexpr std::uint32_t max_gguf_rank = 4;
inline constexpr int max_gguf_array_depth = 4;

/// `start`: the first bytes of a file of `file_size` bytes, all of the header or more. A failure
/// says what is wrong, and does not name the file.
Result<GgufHeader> parse_gguf_header(std::vector<std::uint8_t> start, std::uint64_t file_size);

/// Reads as much of an open file as its header takes. A failure starts with the path.
Result<GgufHeader> read_gguf_header(const InputFile& file);

}  // namespace microscale
