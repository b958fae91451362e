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
  std::string bytes;
  append(bytes, static_cast<std::uint32_t>(GgufValueType::u32));
  append(bytes, value);
  put(key, std::move(bytes));
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
