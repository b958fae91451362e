// PTX text cut into tokens, with the line each stands on. Knows characters, not grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace microscale::emulator::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    end,
    word,     // name, opcode, %register, `_`, $label
    dot,      // `.reg`, `.b32`, `.L1::no_allocate`: text is without the dot
    integer,  // value: its 64 bits
    real32,   // value: the bits of 0f3F800000
    real64,   // value: the bits of 0d..., or of a decimal such as 1.5e3
    decimal,  // 1.5e3; value as for real64
    string,   // text is between the quotes
    punct,    // punct: one character
    bad       // Lexer::problem() says what
  };
  Kind kind = Kind::end;
  char punct = 0;
  std::uint32_t line = 1;
  std::string_view text;
  std::uint64_t value = 0;

  bool is(char character) const { return kind == Kind::punct && punct == character; }
  bool is_dot(std::string_view word) const { return kind == Kind::dot && text == word; }
  bool is_word(std::string_view word) const { return kind == Kind::word && text == word; }
};

/// Reads `text` from byte `offset`, which is on line `line`. The text must outlive the tokens.
class Lexer {
 public:
  explicit Lexer(std::string_view text, std::size_t offset = 0, std::uint32_t line = 1)
      : text_(text), position_(offset), line_(line) {}

  Token next();

  /// Right after a `{` was the last token: moves behind its `}` without cutting tokens; false when
  /// there is none (problem() says so).
  bool skip_braces();

  std::size_t position() const { return position_; }
  std::uint32_t line() const { return line_; }
  const std::string& problem() const { return problem_; }

 private:
  bool skip_blanks();
  Token number();
  Token bad(Token token, std::string problem);

  std::string_view text_;
  std::size_t position_ = 0;
  std::uint32_t line_ = 1;
  std::string problem_;
};

/// "line 12, column 5" of a byte of the text, both from 1.
std::string place_of(std::string_view text, std::size_t offset, std::uint32_t line);

/// What a message may quote: at most 40 characters, those outside printable ASCII as \xNN.
std::string quoted(std::string_view text);

}  // namespace microscale::emulator::ptx
