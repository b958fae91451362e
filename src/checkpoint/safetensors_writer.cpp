#include "checkpoint/safetensors_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "checkpoint/json.hpp"

namespace microscale {
namespace {

// A JSON string as serde_json writes it: only what must be escaped is.
void append_json_string(std::string& json, std::string_view text) {
  json += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        json += "\\\"";
        break;
      case '\\':
        json += "\\\\";
        break;
      case '\b':
        json += "\\b";
        break;
      case '\f':
        json += "\\f";
        break;
      case '\n':
        json += "\\n";
        break;
      case '\r':
        json += "\\r";
        break;
      case '\t':
        json += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          json += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          json += c;
        }
    }
  }
  json += '"';
}

void append_metadata(std::string& json, const SafetensorsMetadata& metadata) {
  json += "\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    if (json.back() != '{') json += ',';
    append_json_string(json, key);
    json += ':';
    append_json_string(json, value);
  }
  json += '}';
}

}  // namespace

bool has_known_format(const SafetensorsMetadata& metadata) {
  if (metadata.empty()) return true;
  return std::any_of(metadata.begin(), metadata.end(), [](const auto& item) {
    return item.first == "format" && (item.second == "pt" || item.second == "tf" ||
                                      item.second == "flax" || item.second == "mlx");
  });
}

Result<SafetensorsLayout> plan_safetensors(std::vector<PlannedTensor> tensors,
                                           SafetensorsMetadata metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const PlannedTensor& a, const PlannedTensor& b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });
  std::sort(metadata.begin(), metadata.end());

  std::string json = "{";
  if (!metadata.empty()) append_metadata(json, metadata);
  std::uint64_t position = 0;
  for (const PlannedTensor& tensor : tensors) {
    const auto bytes = stored_bytes(tensor.type, tensor.shape);
    std::uint64_t end = 0;
    if (!bytes || __builtin_add_overflow(position, bytes.value(), &end)) {
      return Failure{
          ErrorCode::invalid_argument,
          fmt::format("cannot write tensor {}: {}; give it another shape", in_quotes(tensor.name),
                      bytes ? "the file would be too large" : bytes.failure().message)};
    }
    if (json.size() > 1) json += ',';
    append_json_string(json, tensor.name);
    json += fmt::format(R"(:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        to_string(tensor.type), fmt::join(tensor.shape, ","), position, end);
    position = end;
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  if (json.size() > max_safetensors_header) {
    return Failure{
        ErrorCode::invalid_argument,
        fmt::format("cannot write {} tensors into one safetensors file: the header would "
                    "have {} bytes, more than {}; spread them over more files",
                    tensors.size(), json.size(), max_safetensors_header)};
  }

  // The strict reader decides whether this is a file; so the two can never disagree.
  SafetensorsLayout layout;
  layout.file_size = 8 + json.size() + position;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(json.data());
  auto header = parse_safetensors_header({bytes, json.size()}, layout.file_size);
  if (!header) {
    return Failure{ErrorCode::invalid_argument,
                   "cannot write these tensors as safetensors: " + header.failure().message};
  }
  // Not the reader's order: empty tensors share an offset, and there the order written counts.
  for (PlannedTensor& tensor : tensors) {
    TensorEntry entry{std::move(tensor.name), tensor.type, std::move(tensor.shape), 0, 0};
    entry.begin = layout.tensors.empty() ? 8 + json.size() : layout.tensors.back().end;
    entry.end = entry.begin + stored_bytes(entry.type, entry.shape).value();
    layout.tensors.push_back(std::move(entry));
  }
  for (int shift = 0; shift < 64; shift += 8) {
    layout.header += static_cast<char>(static_cast<std::uint64_t>(json.size()) >> shift & 0xFF);
  }
  layout.header += json;
  return layout;
}

}  // namespace microscale
