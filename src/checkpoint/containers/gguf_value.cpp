#include "checkpoint/containers/gguf_value.hpp"

#include <fmt/format.h>

#include <cstring>

namespace microscale {
namespace {

template <class T>
T load(std::span<const std::uint8_t> bytes, std::uint64_t at = 0) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Whole numbers of every type as 64 bits; nothing for other types.
std::optional<std::int64_t> signed_value(const GgufValue& value) {
  switch (value.type) {
    case GgufValueType::u8:
      return load<std::uint8_t>(value.bytes);
    case GgufValueType::i8:
      return load<std::int8_t>(value.bytes);
    case GgufValueType::u16:
      return load<std::uint16_t>(value.bytes);
    case GgufValueType::i16:
      return load<std::int16_t>(value.bytes);
    case GgufValueType::u32:
      return load<std::uint32_t>(value.bytes);
    case GgufValueType::i32:
      return load<std::int32_t>(value.bytes);
    case GgufValueType::i64:
      return load<std::int64_t>(value.bytes);
    default:
      return std::nullopt;
  }
}

// Bytes of an element at the beginning of `bytes`.
std::uint64_t element_bytes(GgufValueType type, std::span<const std::uint8_t> bytes) {
  if (const std::uint64_t fixed = gguf_scalar_bytes(type)) return fixed;
  if (type == GgufValueType::string) return 8 + load<std::uint64_t>(bytes);
  const auto inner = static_cast<GgufValueType>(load<std::uint32_t>(bytes));
  const auto count = load<std::uint64_t>(bytes, 4);
  if (const std::uint64_t fixed = gguf_scalar_bytes(inner)) return 12 + fixed * count;
  std::uint64_t at = 12;
  for (std::uint64_t i = 0; i < count; ++i) at += element_bytes(inner, bytes.subspan(at));
  return at;
}

}  // namespace

const char* to_string(GgufValueType type) {
  constexpr const char* names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                   "bool", "string", "array", "u64", "i64", "f64"};
  const auto number = static_cast<std::size_t>(type);
  return number < std::size(names) ? names[number] : "unknown";
}

std::uint64_t gguf_scalar_bytes(GgufValueType type) {
  constexpr std::uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const auto number = static_cast<std::size_t>(type);
  return number < std::size(bytes) ? bytes[number] : 0;
}

std::optional<std::uint64_t> GgufValue::whole() const {
  if (type == GgufValueType::u64) return load<std::uint64_t>(bytes);
  const auto value = signed_value(*this);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

std::optional<double> GgufValue::number() const {
  if (type == GgufValueType::f32) return load<float>(bytes);
  if (type == GgufValueType::f64) return load<double>(bytes);
  if (type == GgufValueType::u64) return static_cast<double>(load<std::uint64_t>(bytes));
  const auto value = signed_value(*this);
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

std::optional<bool> GgufValue::boolean() const {
  if (type != GgufValueType::boolean) return std::nullopt;
  return bytes[0] != 0;
}

std::optional<std::string_view> GgufValue::text() const {
  if (type != GgufValueType::string) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string GgufValue::shown(std::size_t most_elements) const {
  if (const auto characters = text()) return std::string(*characters);
  if (const auto truth = boolean()) return *truth ? "true" : "false";
  if (type == GgufValueType::u64) return fmt::format("{}", load<std::uint64_t>(bytes));
  if (type == GgufValueType::f32) return fmt::format("{}", load<float>(bytes));
  if (type == GgufValueType::f64) return fmt::format("{}", load<double>(bytes));
  if (const auto value = signed_value(*this)) return fmt::format("{}", *value);
  std::string list = "[";
  GgufElements elements(*this);
  for (std::size_t i = 0; i < most_elements; ++i) {
    const auto next = elements.next();
    if (!next) break;
    list += (i ? ", " : "") + next->shown(most_elements);
  }
  if (count > most_elements) list += fmt::format(", ... {} in all", count);
  return list + "]";
}

GgufElements::GgufElements(const GgufValue& array) : array_(array) {
  if (array.type != GgufValueType::array) array_.count = 0;
}

std::optional<GgufValue> GgufElements::next() {
  if (taken_ == array_.count) return std::nullopt;
  ++taken_;
  const auto rest = array_.bytes.subspan(at_);
  const std::uint64_t size = element_bytes(array_.element, rest);
  at_ += size;
  GgufValue value;
  value.type = array_.element;
  if (value.type == GgufValueType::string) {
    value.bytes = rest.subspan(8, size - 8);
  } else if (value.type == GgufValueType::array) {
    value.element = static_cast<GgufValueType>(load<std::uint32_t>(rest));
    value.count = load<std::uint64_t>(rest, 4);
    value.bytes = rest.subspan(12, size - 12);
  } else {
    value.bytes = rest.first(size);
  }
  return value;
}

}  // namespace microscale
