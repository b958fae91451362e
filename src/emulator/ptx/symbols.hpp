// The names of a function's body: lexical scopes of registers, register ranges and variables.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/ast.hpp"

namespace microscale::emulator::ptx {

class Symbols {
 public:
  enum class Kind : std::uint8_t { reg, variable };
  struct Symbol {
    Kind kind = Kind::reg;
    std::uint32_t index = 0;  // in the function's registers or variables
    std::uint32_t depth = 0;  // of the scope, 0: the function's own
  };

  /// Registers are added to `registers` when a range gives them their first use.
  explicit Symbols(std::vector<Register>& registers) : registers_(registers) {}

  void open() {
    if (++depth_ == scopes_.size()) scopes_.emplace_back();
  }
  std::uint32_t depth() const { return depth_; }
  void close();

  /// False when the scope has the name already.
  bool declare(std::string_view name, Kind kind, std::uint32_t index);
  /// `%r<277>`: %r0 to %r276. False when the scope has that range already.
  bool declare_range(std::string_view prefix, std::uint64_t count, Type type);

  /// The innermost; null when there is none. Valid until the next call.
  const Symbol* find(std::string_view name);

 private:
  struct Range {
    std::uint64_t count = 0;
    Type type = Type::b32;
    std::uint32_t depth = 0;
  };
  const Range* range_of(std::string_view name, std::uint32_t above) const;

  std::vector<Register>& registers_;
  std::unordered_map<std::string_view, std::vector<Symbol>> symbols_;  // innermost last
  std::unordered_map<std::string_view, std::vector<Range>> ranges_;
  struct Scope {
    std::vector<std::string_view> symbols, ranges;  // what close() takes back
  };
  std::vector<Scope> scopes_ = std::vector<Scope>(1);
  std::size_t inner_ranges_ = 0;  // open now, in scopes deeper than 0
  std::uint32_t depth_ = 0;
};

}  // namespace microscale::emulator::ptx
