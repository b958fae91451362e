// The strict safetensors reader: header bytes in, a checked table of tensors out.
//
// A file is 8 bytes of little-endian header length, the header (a JSON object, whitespace around it
// allowed), then the tensors' bytes without holes up to the last byte of the file. Beyond what the
// format itself says, these are refused: duplicate keys, keys of a tensor other than dtype, shape
// and data_offsets, empty names, more than 64 dimensions, and integers above 2^48. No allocation
// follows a number that has not been checked against the size of the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/stored_type.hpp"
#include "core/result.hpp"

namespace microscale {

struct TensorEntry {
  std::string name;
  StoredType type = StoredType::u8;
  std::vector<std::int64_t> shape;  // elements, also for F4; empty for a scalar
  std::uint64_t begin = 0;          // bytes from the start of the FILE (not of the data)
  std::uint64_t end = 0;            // one past the last byte

  std::uint64_t bytes() const { return end - begin; }
  bool operator==(const TensorEntry&) const = default;
};

using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in order of `begin`; empty tensors that share it, by name
  SafetensorsMetadata metadata;      // `__metadata__`, in the order of the file
  std::uint64_t data_start = 0;      // where the first tensor begins: 8 + length of the header
};

/// Longest header accepted, in bytes, as in the reference implementation.
inline constexpr std::uint64_t max_safetensors_header = 100'000'000;
inline constexpr std::size_t max_safetensors_rank = 64;

/// Length of the header, from the first 8 bytes of a file of `file_size` bytes.
Result<std::uint64_t> safetensors_header_length(std::span<const std::uint8_t, 8> prefix,
                                                std::uint64_t file_size);

/// `header_json` is the header without its 8 length bytes. A failure names the tensor, not the
/// file.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::uint8_t> header_json,
                                                   std::uint64_t file_size);

/// Reads and checks the header of an open file. A failure starts with the path.
Result<SafetensorsHeader> read_safetensors_header(const InputFile& file);

}  // namespace microscale
