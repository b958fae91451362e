// Reading UTF-8 that may be broken: names come from files that were not checked.
#pragma once

#include <cstddef>
#include <string_view>

namespace microscale {

struct CodePoint {
  char32_t value = 0xFFFD;
  std::size_t bytes = 1;  ///< to step over; 1 for a broken byte
  bool valid = false;
};

/// The character at text[at]. Overlong forms, surrogates, values past U+10FFFF and cut-off
/// sequences are not valid.
constexpr CodePoint decode_utf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> char32_t { return static_cast<unsigned char>(text[i]); };
  const char32_t lead = byte(at);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + bytes > text.size()) return {};
  char32_t value = lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(at + i) & 0x3F);
  }
  const char32_t least = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80;
  if (value < least || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return {};
  return {value, bytes, true};
}

constexpr bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid) return false;
    at += point.bytes;
  }
  return true;
}

/// Characters that change the text around them or hide: controls, bidirectional overrides,
/// invisibles.
constexpr bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

}  // namespace microscale
