// Lays out a GGUF file: the bytes of its header and where each tensor goes, before any tensor
// exists. Version 3; metadata is what is set, or as it was in the file that it comes from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/containers/gguf_header.hpp"
#include "core/result.hpp"

namespace microscale {

struct PlannedGgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<std::int64_t> shape;  // rows along the LAST dimension, as GgufTensor has it
};

struct GgufLayout {
  std::string header;               // from byte 0 to where tensors begin, padding too
  std::vector<GgufTensor> tensors;  // in the order planned
  std::uint64_t file_size = 0;      // bytes; every tensor is padded, the last one too
};

/// Values by key, in order.
class GgufMetadata {
 public:
  /// Puts the value behind the others; one that is there under this key stays where it is and is
  /// replaced.
  void set(std::string_view key, const GgufValue& value);
  void set_u32(std::string_view key, std::uint32_t value);
  void set_f32(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_text(std::string_view key, std::string_view value);
  void set_texts(std::string_view key, const std::vector<std::string>& values);
  void set_i32s(std::string_view key, const std::vector<std::int32_t>& values);
  void set_f32s(std::string_view key, const std::vector<float>& values);
  void erase(std::string_view key);

  const std::vector<std::pair<std::string, std::string>>& entries() const { return entries_; }

 private:
  void put(std::string_view key, std::string bytes);
  std::vector<std::pair<std::string, std::string>> entries_;  // key; type and bytes as in a file
};

/// `alignment`: bytes; what general.alignment says, or 32. Fails on what the strict reader would
/// refuse: names twice, rows that are no whole number of blocks, sizes that overflow.
Result<GgufLayout> plan_gguf_file(const GgufMetadata& metadata, std::uint64_t alignment,
                                  const std::vector<PlannedGgufTensor>& tensors);

}  // namespace microscale
