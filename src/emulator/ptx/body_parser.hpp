// How a body is parsed; body.cpp reads statements, body_operands.cpp what stands in an instruction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/ast.hpp"
#include "emulator/ptx/body.hpp"
#include "emulator/ptx/reader.hpp"
#include "emulator/ptx/symbols.hpp"

namespace microscale::emulator::ptx {

class BodyParser {
 public:
  BodyParser(std::string_view text, std::size_t offset, std::uint32_t line,
             const ModuleNames& module, Function& function)
      : reader_(text, offset, line),
        module_(module),
        function_(function),
        symbols_(function.registers) {}

  Status parse();

 private:
  // A place that names a label before it is known where that stands.
  struct Reference {
    std::uint32_t instruction = 0, operand = 0;
    std::uint32_t scope = 0;
    Token name;
    bool list = false;  // of .branchtargets
  };
  struct LabelKey {
    std::string_view name;
    std::uint32_t scope = 0;
    bool operator==(const LabelKey&) const = default;
  };
  struct LabelHash {
    std::size_t operator()(const LabelKey& key) const {
      return std::hash<std::string_view>()(key.name) ^
             (key.scope * std::size_t{0x9e3779b97f4a7c15});
    }
  };
  struct Label {
    std::uint32_t instruction = 0;
    std::int64_t list = -1;  // index in lists_ when it names .branchtargets
  };
  struct TargetList {
    std::uint32_t scope = 0;
    std::vector<Token> names;
  };

  // body.cpp
  bool statement();
  bool directive();
  bool registers();
  bool variables(Space space);
  bool open_scope();
  void close_scope();
  bool label(const Token& name);
  bool target_list(const Token& name);
  bool source_line();
  bool guarded();
  bool resolve_labels();
  const Label* find_label(std::string_view name, std::uint32_t scope) const;
  bool resolve_list(const Reference& reference, const Label& label, std::size_t& budget);

  // body_operands.cpp
  bool instruction(const Token& opcode, Guard guard);
  bool call();
  bool operand(Operand& operand);
  bool vector(Operand& operand);
  bool address(Operand& operand);
  bool number(Operand& operand);
  bool name(Operand& operand);
  bool special(const Token& token, Operand& operand);
  void label_operand(bool list);
  bool find_name(const Token& token, Operand& operand);

  Reader reader_;
  const ModuleNames& module_;
  Function& function_;
  Symbols symbols_;
  std::uint32_t scope_ = 0;  // number of the innermost one
  std::vector<std::uint32_t> scope_parents_ = {0};
  std::unordered_map<LabelKey, Label, LabelHash> labels_;
  std::vector<TargetList> lists_;
  std::vector<Reference> references_;
  SourceLine source_;
  // By file, line and column of a place: the outermost call that it was inlined at.
  std::map<std::array<std::int64_t, 3>, std::array<std::int64_t, 3>> outer_;
  Instruction next_;  // being built: its vectors keep their room
  std::vector<Operand> parts_;
};

}  // namespace microscale::emulator::ptx
