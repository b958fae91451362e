#include "emulator/ptx/reader.hpp"

#include <fmt/format.h>

#include <utility>

namespace microscale::emulator::ptx {

bool Reader::fail(const Token& at, std::string message, ErrorCode code) {
  if (!failed_) {
    failed_ = true;
    const bool marked = at.kind == Token::Kind::dot || at.kind == Token::Kind::string;  // by . or "
    const std::size_t offset =
        at.text.data() ? static_cast<std::size_t>(at.text.data() - text_.data()) - marked
                       : text_.size();
    failure_ = {code, fmt::format("PTX {}: {}", place_of(text_, offset, at.line), message)};
  }
  return false;
}

bool Reader::unexpected(std::string_view wanted) {
  if (now_.kind == Token::Kind::bad) return fail(now_, lexer_.problem());
  if (now_.kind == Token::Kind::end)
    return fail(now_, fmt::format("expected {}, found the end", wanted));
  const bool dot = now_.kind == Token::Kind::dot;
  const std::string found =
      dot ? '.' + std::string(now_.text.substr(0, 64)) : std::string(now_.text.substr(0, 64));
  return fail(now_, fmt::format("expected {}, found {}", wanted, quoted(found)));
}

bool Reader::expect(char character, std::string_view where) {
  if (accept(character)) return true;
  return unexpected(fmt::format("'{}' {}", character, where));
}

bool Reader::word(std::string_view& name, std::string_view what) {
  if (now_.kind != Token::Kind::word) return unexpected(what);
  name = now_.text;
  advance();
  return true;
}

bool Reader::string(std::string_view& value, std::string_view where) {
  if (now_.kind != Token::Kind::string) return unexpected(fmt::format("a string {}", where));
  value = now_.text;
  advance();
  return true;
}

// A number behind any signs; the signs of hostile text may be many, so no recursion.
bool Reader::term(std::uint64_t& value, std::string_view what) {
  bool negative = false, inverted = false;
  while (now_.is('-') || now_.is('+') || (now_.is('~') && !negative && !inverted)) {
    negative ^= now_.is('-');
    inverted ^= now_.is('~');
    advance();
  }
  if (now_.is_word("WARP_SZ")) {
    value = 32;
  } else if (now_.kind == Token::Kind::integer) {
    value = now_.value;
  } else {
    return unexpected(what);
  }
  if (negative) value = 0 - value;  // ~-x and -x; -~x is refused above
  if (inverted) value = ~value;
  advance();
  return true;
}

bool Reader::integer(std::int64_t& value, std::string_view what) {
  std::uint64_t sum = 0, next = 0;
  if (!term(sum, what)) return false;
  while (now_.is('+') || now_.is('-')) {
    const bool minus = now_.is('-');
    advance();
    if (!term(next, what)) return false;
    sum += minus ? 0 - next : next;
  }
  value = static_cast<std::int64_t>(sum);
  return true;
}

bool Reader::count(std::int64_t& value, std::int64_t limit, std::string_view what) {
  const Token at = now_;
  if (!integer(value, what)) return false;
  if (value >= 0 && value <= limit) return true;
  return fail(at, fmt::format("{} must be in 0..{}, got {}", what, limit, value));
}

bool Reader::skip_braces() {
  const Token open = now_;
  if (!lexer_.skip_braces()) return fail(open, lexer_.problem());
  advance();
  return true;
}

}  // namespace microscale::emulator::ptx
