// GGUF files made by hand, right or wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/containers/gguf_type.hpp"
#include "checkpoint/containers/gguf_value.hpp"

namespace microscale::testing {

template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline std::string gguf_string(std::string_view text) {
  return little_endian<std::uint64_t>(text.size()) + std::string(text);
}

/// The type of a value and its bytes, as they stand behind a key.
template <class T>
std::string gguf_number(GgufValueType type, T value) {
  return little_endian(static_cast<std::uint32_t>(type)) + little_endian(value);
}
inline std::string gguf_u32(std::uint32_t value) { return gguf_number(GgufValueType::u32, value); }
inline std::string gguf_text(std::string_view text) {
  return little_endian(static_cast<std::uint32_t>(GgufValueType::string)) + gguf_string(text);
}
/// `elements`: their bytes, one behind the other.
inline std::string gguf_array(GgufValueType element, std::uint64_t count,
                              const std::string& elements) {
  return little_endian(static_cast<std::uint32_t>(GgufValueType::array)) +
         little_endian(static_cast<std::uint32_t>(element)) + little_endian(count) + elements;
}
inline std::string gguf_texts(const std::vector<std::string>& texts) {
  std::string elements;
  for (const std::string& text : texts) elements += gguf_string(text);
  return gguf_array(GgufValueType::string, texts.size(), elements);
}

class GgufBuilder {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  // that tensors and data are padded to; the file says it by itself

  GgufBuilder& value(std::string_view key, const std::string& type_and_bytes) {
    metadata_ += gguf_string(key) + type_and_bytes;
    ++values_;
    return *this;
  }

  /// `shape` as GGUF has it: rows along the FIRST dimension. The data begins behind the last.
  GgufBuilder& tensor(std::string_view name, std::uint32_t type,
                      const std::vector<std::uint64_t>& shape, const std::string& data) {
    return tensor_at(name, type, shape, data_.size(), data);
  }
  GgufBuilder& tensor(std::string_view name, GgufType type, const std::vector<std::uint64_t>& shape,
                      const std::string& data) {
    return tensor(name, static_cast<std::uint32_t>(type), shape, data);
  }

  /// A tensor that says it lies at `offset`, wherever its data goes.
  GgufBuilder& tensor_at(std::string_view name, std::uint32_t type,
                         const std::vector<std::uint64_t>& shape, std::uint64_t offset,
                         const std::string& data) {
    tensors_ += gguf_string(name) + little_endian(static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t dimension : shape) tensors_ += little_endian(dimension);
    tensors_ += little_endian(type) + little_endian(offset);
    ++count_;
    data_ += data;
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }

  std::string header() const {
    return "GGUF" + little_endian(version) + little_endian(count_) + little_endian(values_) +
           metadata_ + tensors_;
  }

  std::string file() const {
    std::string bytes = header();
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
    return bytes + data_;
  }

 private:
  std::string metadata_, tensors_, data_;
  std::uint64_t values_ = 0, count_ = 0;
};

/// The bytes of FP32 values.
inline std::string float_bytes(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += little_endian(value);
  return bytes;
}

}  // namespace microscale::testing
