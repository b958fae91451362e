// A value of a GGUF file's metadata: a view of checked bytes, read where they lie. A vocabulary of
// a quarter of a million strings costs nothing beside the header itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace microscale {

/// The numbers of the format.
enum class GgufValueType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// "u32", "string".
const char* to_string(GgufValueType type);
/// Bytes of a number or boolean; 0 for strings, arrays, and what is no type.
std::uint64_t gguf_scalar_bytes(GgufValueType type);

/// Bytes belong to the GgufHeader that the value came from.
struct GgufValue {
  GgufValueType type = GgufValueType::u8;
  GgufValueType element = GgufValueType::u8;  // of an array
  std::uint64_t count = 0;                    // of an array
  /// A number: its bytes. A string: its characters. An array: its elements, one behind the other.
  std::span<const std::uint8_t> bytes;

  /// A whole number that is not negative, of any integer type; nothing for anything else.
  std::optional<std::uint64_t> whole() const;
  /// Any number.
  std::optional<double> number() const;
  std::optional<bool> boolean() const;
  std::optional<std::string_view> text() const;

  /// The value for people: a string as it is, of an array its first elements ("[1, 2, 3, ... 9 in
  /// all]").
  std::string shown(std::size_t most_elements = 8) const;
};

/// Goes through an array, whose bytes the parser has checked.
class GgufElements {
 public:
  /// Nothing is there to go through unless `array` is one.
  explicit GgufElements(const GgufValue& array);
  /// The next element; nothing after the last.
  std::optional<GgufValue> next();

 private:
  GgufValue array_;
  std::uint64_t taken_ = 0, at_ = 0;
};

}  // namespace microscale
