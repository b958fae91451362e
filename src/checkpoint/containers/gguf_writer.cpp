#include "checkpoint/containers/gguf_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/json.hpp"

namespace microscale {
namespace {

constexpr std::uint32_t version = 3;

template <class T>
void append(std::string& bytes, T value) {
  char little[sizeof(T)];
  std::memcpy(little, &value, sizeof(T));
  bytes.append(little, sizeof(T));
}

void append_text(std::string& bytes, std::string_view text) {
  append(bytes, static_cast<std::uint64_t>(text.size()));
  bytes += text;
}

std::string encoded(const GgufValue& value) {
  std::string bytes;
  append(bytes, static_cast<std::uint32_t>(value.type));
  if (value.type == GgufValueType::string) {
    append(bytes, static_cast<std::uint64_t>(value.bytes.size()));
  } else if (value.type == GgufValueType::array) {
    append(bytes, static_cast<std::uint32_t>(value.element));
    append(bytes, value.count);
  }
  bytes.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  return bytes;
}

std::string typed(GgufValueType type) {
  std::string bytes;
  append(bytes, static_cast<std::uint32_t>(type));
  return bytes;
}

template <class T>
std::string scalar(GgufValueType type, T value) {
  std::string bytes = typed(type);
  append(bytes, value);
  return bytes;
}

std::string array(GgufValueType element, std::size_t count) {
  std::string bytes = typed(GgufValueType::array) + typed(element);
  append(bytes, static_cast<std::uint64_t>(count));
  return bytes;
}

template <class T>
std::string numbers(GgufValueType element, const std::vector<T>& values) {
  std::string bytes = array(element, values.size());
  for (const T value : values) append(bytes, value);
  return bytes;
}

std::uint64_t padded(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

void GgufMetadata::put(std::string_view key, std::string bytes) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  if (found != entries_.end()) {
    found->second = std::move(bytes);
  } else {
    entries_.emplace_back(key, std::move(bytes));
  }
}

void GgufMetadata::set(std::string_view key, const GgufValue& value) { put(key, encoded(value)); }

void GgufMetadata::set_u32(std::string_view key, std::uint32_t value) {
  put(key, scalar(GgufValueType::u32, value));
}

void GgufMetadata::set_f32(std::string_view key, float value) {
  put(key, scalar(GgufValueType::f32, value));
}

void GgufMetadata::set_bool(std::string_view key, bool value) {
  put(key, scalar(GgufValueType::boolean, static_cast<std::uint8_t>(value)));
}

void GgufMetadata::set_text(std::string_view key, std::string_view value) {
  std::string bytes = typed(GgufValueType::string);
  append_text(bytes, value);
  put(key, std::move(bytes));
}

void GgufMetadata::set_texts(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes = array(GgufValueType::string, values.size());
  for (const std::string& value : values) append_text(bytes, value);
  put(key, std::move(bytes));
}

void GgufMetadata::set_i32s(std::string_view key, const std::vector<std::int32_t>& values) {
  put(key, numbers(GgufValueType::i32, values));
}

void GgufMetadata::set_f32s(std::string_view key, const std::vector<float>& values) {
  put(key, numbers(GgufValueType::f32, values));
}

void GgufMetadata::erase(std::string_view key) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; });
}

Result<GgufLayout> plan_gguf_file(const GgufMetadata& metadata, std::uint64_t alignment,
                                  const std::vector<PlannedGgufTensor>& tensors) {
  GgufLayout layout;
  std::string& header = layout.header;
  header = "GGUF";
  append(header, version);
  append(header, static_cast<std::uint64_t>(tensors.size()));
  append(header, static_cast<std::uint64_t>(metadata.entries().size()));
  for (const auto& [key, bytes] : metadata.entries()) {
    append_text(header, key);
    header += bytes;
  }
  std::uint64_t offset = 0;
  for (const PlannedGgufTensor& tensor : tensors) {
    const auto bytes = gguf_bytes(tensor.type, tensor.shape);
    if (!bytes) {
      return Failure{ErrorCode::bad_input,
                     fmt::format("tensor {} cannot be written: {}", in_quotes(tensor.name),
                                 bytes.failure().message)};
    }
    append_text(header, tensor.name);
    append(header, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto it = tensor.shape.rbegin(); it != tensor.shape.rend(); ++it) {
      append(header, static_cast<std::uint64_t>(*it));
    }
    append(header, static_cast<std::uint32_t>(tensor.type));
    append(header, offset);
    layout.tensors.push_back(
        {tensor.name, tensor.type, tensor.shape, offset, offset + bytes.value()});
    offset = padded(offset + bytes.value(), alignment);
  }
  header.resize(padded(header.size(), alignment), '\0');
  for (GgufTensor& tensor : layout.tensors) {
    tensor.begin += header.size();
    tensor.end += header.size();
  }
  layout.file_size = header.size() + offset;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(header.data());
  const auto read = parse_gguf_header({bytes, bytes + header.size()}, layout.file_size);
  if (read) return layout;
  return Failure{read.failure().code,
                 "cannot write these tensors as GGUF: " + read.failure().message};
}

}  // namespace microscale
