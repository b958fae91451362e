// A cursor over the tokens of a text that remembers the first thing that is wrong. Every reading
// function returns false after a failure; the caller passes that on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "emulator/ptx/lexer.hpp"

namespace microscale::emulator::ptx {

class Reader {
 public:
  explicit Reader(std::string_view text, std::size_t offset = 0, std::uint32_t line = 1)
      : text_(text), lexer_(text, offset, line) {
    advance();
  }

  const Token& now() const { return now_; }
  void advance() { now_ = lexer_.next(); }

  /// Takes the token if it is this character; `accept` says whether, `expect` fails otherwise.
  bool accept(char character) {
    if (!now_.is(character)) return false;
    advance();
    return true;
  }
  bool expect(char character, std::string_view where);
  bool word(std::string_view& name, std::string_view what);
  bool string(std::string_view& value, std::string_view where);

  /// A sum of integers with signs, as in `[a+-4]`; 64 bits, wrapping like PTX's.
  bool integer(std::int64_t& value, std::string_view what);
  /// One that must be in 0..limit.
  bool count(std::int64_t& value, std::int64_t limit, std::string_view what);

  /// Behind a `{` that is the current token: moves behind its `}`.
  bool skip_braces();

  bool fail(const Token& at, std::string message, ErrorCode code = ErrorCode::bad_input);
  bool unexpected(std::string_view wanted);  // "expected X, found 'y'"
  bool failed() const { return failed_; }
  const Failure& failure() const { return failure_; }

  std::string_view text() const { return text_; }
  /// Of the byte behind the current token.
  std::size_t position() const { return lexer_.position(); }

 private:
  bool term(std::uint64_t& value, std::string_view what);

  std::string_view text_;
  Lexer lexer_;
  Token now_;
  bool failed_ = false;
  Failure failure_;
};

}  // namespace microscale::emulator::ptx
