#include "emulator/ptx/lexer.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <utility>

namespace microscale::emulator::ptx {
namespace {

enum : std::uint8_t { name_start = 1, name_part = 2, digit = 4, blank = 8 };

constexpr std::array<std::uint8_t, 256> classes = [] {
  std::array<std::uint8_t, 256> table{};
  for (int c = 'a'; c <= 'z'; ++c) table[c] = table[c - 'a' + 'A'] = name_start | name_part;
  for (int c = '0'; c <= '9'; ++c) table[c] = name_part | digit;
  for (const char c : {'_', '$', '%'})
    table[static_cast<unsigned char>(c)] = name_start | name_part;
  table['%'] = name_start;  // only in front
  for (const char c : {' ', '\t', '\r', '\n', '\v', '\f'})
    table[static_cast<unsigned char>(c)] = blank;
  return table;
}();

bool has_class(char character, std::uint8_t mask) {
  return (classes[static_cast<unsigned char>(character)] & mask) != 0;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

}  // namespace

std::string place_of(std::string_view text, std::size_t offset, std::uint32_t line) {
  const std::size_t before = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  const std::size_t column = before == std::string_view::npos ? offset + 1 : offset - before;
  return fmt::format("line {}, column {}", line, column);
}

std::string quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, 40)) {
    if (c >= ' ' && c <= '~') {
      result += c;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return result + (text.size() > 40 ? "...'" : "'");
}

Token Lexer::bad(Token token, std::string problem) {
  token.kind = Token::Kind::bad;
  problem_ = std::move(problem);
  return token;
}

// Blanks and comments; false when a comment has no end.
bool Lexer::skip_blanks() {
  const std::size_t size = text_.size();
  while (position_ < size) {
    const char c = text_[position_];
    if (has_class(c, blank)) {
      line_ += c == '\n';
      ++position_;
    } else if (c == '/' && position_ + 1 < size && text_[position_ + 1] == '/') {
      const std::size_t end = text_.find('\n', position_);
      position_ = end == std::string_view::npos ? size : end;
    } else if (c == '/' && position_ + 1 < size && text_[position_ + 1] == '*') {
      const std::size_t end = text_.find("*/", position_ + 2);
      if (end == std::string_view::npos) return false;
      for (std::size_t i = position_; i < end; ++i) line_ += text_[i] == '\n';
      position_ = end + 2;
    } else {
      break;
    }
  }
  return true;
}

Token Lexer::next() {
  Token token;
  const bool blanks_end = skip_blanks();
  token.line = line_;
  const std::size_t size = text_.size(), start = position_;
  token.text = text_.substr(start, start < size ? 1 : 0);
  if (!blanks_end) return bad(token, "a comment that starts here has no */");
  if (start == size) return token;
  const char c = text_[start];
  if (has_class(c, digit)) return number();
  if (has_class(c, name_start)) {
    ++position_;
    while (position_ < size && has_class(text_[position_], name_part)) ++position_;
    token.text = text_.substr(start, position_ - start);
    if (token.text == "%") {
      token.kind = Token::Kind::punct;
      token.punct = '%';
    } else {
      token.kind = Token::Kind::word;
    }
    return token;
  }
  if (c == '.') {
    ++position_;
    while (position_ < size) {
      if (has_class(text_[position_], name_part)) {
        ++position_;
      } else if (text_.substr(position_, 2) == "::" && position_ + 2 < size &&
                 has_class(text_[position_ + 2], name_part)) {
        position_ += 3;
      } else {
        break;
      }
    }
    token.kind = Token::Kind::dot;
    token.text = text_.substr(start + 1, position_ - start - 1);
    if (token.text.empty()) return bad(token, "a dot without a word behind it");
    return token;
  }
  if (c == '"') {
    std::size_t end = start + 1;
    while (end < size && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    if (end >= size || text_[end] != '"') return bad(token, "a string that starts here has no end");
    for (std::size_t i = start; i < end; ++i) line_ += text_[i] == '\n';
    token.kind = Token::Kind::string;
    token.text = text_.substr(start + 1, end - start - 1);
    position_ = end + 1;
    return token;
  }
  if (c <= ' ' || c > '~') {
    return bad(token, fmt::format("the character {} is not PTX", quoted(token.text)));
  }
  ++position_;
  token.kind = Token::Kind::punct;
  token.punct = c;
  return token;
}

// Integers in four bases with an optional U; 0f and 0d bit patterns; decimal fractions.
Token Lexer::number() {
  Token token;
  token.line = line_;
  const std::size_t start = position_, size = text_.size();
  std::size_t end = start;
  while (end < size && has_class(text_[end], name_part)) ++end;
  const bool fraction = end + 1 < size && text_[end] == '.' && has_class(text_[end + 1], digit);
  token.text = text_.substr(start, end - start);
  const char second = token.text.size() > 1 ? token.text[1] : '0';
  const bool zero = token.text[0] == '0';
  const bool bits = zero && (second == 'f' || second == 'F' || second == 'd' || second == 'D');
  const bool hex = zero && (second == 'x' || second == 'X');
  const bool exponent = !hex && !bits && token.text.find_first_of("eE") != std::string_view::npos;
  if (fraction || exponent) {
    if (fraction) {
      ++end;
      while (end < size && has_class(text_[end], name_part)) ++end;
    }
    const char last = text_[end - 1];
    if ((last == 'e' || last == 'E') && end < size && (text_[end] == '-' || text_[end] == '+')) {
      ++end;
      while (end < size && has_class(text_[end], digit)) ++end;
    }
    token.text = text_.substr(start, end - start);
    double value = 0;
    const char* stop = token.text.data() + token.text.size();
    const auto [used, problem] = std::from_chars(token.text.data(), stop, value);
    if (problem != std::errc() || used != stop) {
      return bad(token, fmt::format("{} is not a number", quoted(token.text)));
    }
    token.kind = Token::Kind::decimal;
    token.value = std::bit_cast<std::uint64_t>(value);
    position_ = end;
    return token;
  }
  position_ = end;
  std::string_view digits = token.text;
  int base = 10;
  token.kind = Token::Kind::integer;
  if (bits) {
    const bool wide = second == 'd' || second == 'D';
    digits.remove_prefix(2);
    token.kind = wide ? Token::Kind::real64 : Token::Kind::real32;
    if (digits.size() != (wide ? 16u : 8u)) {
      return bad(token,
                 fmt::format("{} needs {} hexadecimal digits", quoted(token.text), wide ? 16 : 8));
    }
    base = 16;
  } else if (digits.back() == 'U' || digits.back() == 'u') {
    digits.remove_suffix(1);
  }
  if (!bits && zero && digits.size() > 1) {
    base = hex ? 16 : second == 'b' || second == 'B' ? 2 : 8;
    digits.remove_prefix(base == 8 ? 1 : 2);
    if (digits.empty()) return bad(token, fmt::format("{} has no digits", quoted(token.text)));
  }
  for (const char c : digits) {
    const int next = hex_digit(c);
    if (next >= base) return bad(token, fmt::format("{} is not a number", quoted(token.text)));
    if (token.value > (UINT64_MAX - static_cast<unsigned>(next)) / static_cast<unsigned>(base)) {
      return bad(token, fmt::format("{} does not fit 64 bits", quoted(token.text)));
    }
    token.value = token.value * static_cast<unsigned>(base) + static_cast<unsigned>(next);
  }
  return token;
}

bool Lexer::skip_braces() {
  const std::size_t start = position_;
  const std::uint32_t start_line = line_;
  std::size_t depth = 1;
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '\n') {
      ++line_;
    } else if (c == '/') {
      const std::size_t before = position_;
      if (!skip_blanks()) {
        problem_ = "a comment that starts here has no */";
        return false;
      }
      if (position_ != before) continue;
    } else if (c == '"') {
      const std::size_t end = text_.find_first_of("\"\n", position_ + 1);
      if (end == std::string_view::npos) break;
      position_ = text_[end] == '"' ? end : end - 1;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      ++position_;
      return true;
    }
    ++position_;
  }
  position_ = start;
  line_ = start_line;
  problem_ = "a body or section that starts here has no }";
  return false;
}

}  // namespace microscale::emulator::ptx
