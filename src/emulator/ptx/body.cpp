#include "emulator/ptx/body.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/ptx/body_parser.hpp"
#include "emulator/ptx/declaration.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator::ptx {
namespace {

constexpr std::uint32_t max_depth = 256;         // of nested braces
constexpr std::int64_t max_registers = 1 << 24;  // of one range
constexpr std::int64_t max_space_bytes = max_variable_bytes;

}  // namespace

Status BodyParser::parse() {
  std::int64_t offset = 0;
  for (const auto* list : {&function_.params, &function_.results}) {
    for (const Variable& each : *list) {
      function_.variables.push_back(each);
      offset = aligned(offset, each.align);
      function_.variables.back().offset = offset;
      offset += each.bytes;
      const auto index = static_cast<std::uint32_t>(function_.variables.size() - 1);
      if (each.name != "_" && !symbols_.declare(each.name, Symbols::Kind::variable, index)) {
        reader_.fail({.line = function_.line, .text = each.name},
                     fmt::format("{} is declared twice", quoted(each.name)));
        return reader_.failure();
      }
    }
  }
  function_.param_bytes = offset;
  while (!reader_.failed()) {
    if (reader_.now().is('}')) {
      if (scope_ == 0) break;
      close_scope();
      reader_.advance();
    } else {
      statement();
    }
  }
  if (reader_.failed() || !resolve_labels()) return reader_.failure();
  function_.parsed = true;
  return success();
}

bool BodyParser::open_scope() {
  if (symbols_.depth() + 1 >= max_depth)
    return reader_.fail(reader_.now(), "braces nested deeper than 256");
  symbols_.open();
  scope_parents_.push_back(scope_);
  scope_ = static_cast<std::uint32_t>(scope_parents_.size() - 1);
  reader_.advance();
  return true;
}

void BodyParser::close_scope() {
  symbols_.close();
  scope_ = scope_parents_[scope_];
}

bool BodyParser::statement() {
  const Token first = reader_.now();
  if (first.kind == Token::Kind::dot) return directive();
  if (first.is('{')) return open_scope();
  if (first.is('@')) return guarded();
  if (reader_.accept(';')) return true;
  if (first.kind != Token::Kind::word) return reader_.unexpected("an instruction or '}'");
  reader_.advance();
  if (reader_.accept(':')) return label(first);
  return instruction(first, {});
}

bool BodyParser::guarded() {
  reader_.advance();
  Guard guard{.present = true, .negated = reader_.accept('!')};
  const Token name = reader_.now();
  if (name.kind != Token::Kind::word) return reader_.unexpected("a predicate");
  const Symbols::Symbol* symbol = symbols_.find(name.text);
  if (symbol == nullptr)
    return reader_.fail(name, fmt::format("unknown name {}", quoted(name.text)));
  guard.reg = symbol->index;
  if (symbol->kind != Symbols::Kind::reg || function_.registers[guard.reg].type != Type::pred) {
    return reader_.fail(name, fmt::format("the guard {} is not a predicate", quoted(name.text)));
  }
  reader_.advance();
  const Token opcode = reader_.now();
  if (opcode.kind != Token::Kind::word)
    return reader_.unexpected("an instruction behind the guard");
  reader_.advance();
  return instruction(opcode, guard);
}

bool BodyParser::directive() {
  const Token at = reader_.now();
  reader_.advance();
  if (at.text == "reg") return registers();
  if (at.text == "shared") return variables(Space::shared);
  if (at.text == "local") return variables(Space::local);
  if (at.text == "param") return variables(Space::param);
  if (at.text == "loc") return source_line();
  if (at.text == "pragma") {
    std::string_view ignored;
    do {
      if (!reader_.string(ignored, "behind .pragma")) return false;
    } while (reader_.accept(','));
    return reader_.expect(';', "behind .pragma");
  }
  return reader_.fail(at, fmt::format("the directive {} is not known in a body",
                                      quoted('.' + std::string(at.text))));
}

bool BodyParser::registers() {
  const Token at = reader_.now();
  const auto type = at.kind == Token::Kind::dot ? type_of(at.text) : std::nullopt;
  if (!type) return reader_.unexpected("the type of a register, such as .b32");
  reader_.advance();
  do {
    const Token name = reader_.now();
    if (name.kind != Token::Kind::word) return reader_.unexpected("the name of a register");
    reader_.advance();
    bool is_new = false;
    if (reader_.accept('<')) {
      std::int64_t count = 0;
      if (!reader_.count(count, max_registers, "a number of registers")) return false;
      if (!reader_.expect('>', "behind a number of registers")) return false;
      is_new = symbols_.declare_range(name.text, static_cast<std::uint64_t>(count), *type);
    } else {
      const auto index = static_cast<std::uint32_t>(function_.registers.size());
      is_new = symbols_.declare(name.text, Symbols::Kind::reg, index);
      function_.registers.push_back({name.text, *type});
    }
    if (!is_new) return reader_.fail(name, fmt::format("{} is declared twice", quoted(name.text)));
  } while (reader_.accept(','));
  return reader_.expect(';', "behind the registers");
}

bool BodyParser::variables(Space space) {
  const Token at = reader_.now();
  const std::size_t first = function_.variables.size();
  if (!read_variables(reader_, space, false, false, function_.variables)) return false;
  std::int64_t& end = space == Space::shared  ? function_.shared_bytes
                      : space == Space::local ? function_.local_bytes
                                              : function_.param_bytes;
  for (std::size_t i = first; i < function_.variables.size(); ++i) {
    Variable& each = function_.variables[i];
    end = aligned(end, each.align);
    each.offset = end;
    end += each.bytes;
    if (end > max_space_bytes) return reader_.fail(at, "more than 64 GiB of variables");
    if (!symbols_.declare(each.name, Symbols::Kind::variable, static_cast<std::uint32_t>(i))) {
      return reader_.fail(at, fmt::format("{} is declared twice", quoted(each.name)));
    }
  }
  return reader_.expect(';', "behind a variable");
}

bool BodyParser::label(const Token& name) {
  if (reader_.now().is_dot("branchtargets")) return target_list(name);
  if (reader_.now().is_dot("callprototype") || reader_.now().is_dot("calltargets")) {
    while (!reader_.now().is(';')) {  // a call's own operands say as much
      const auto kind = reader_.now().kind;
      if (kind == Token::Kind::end || kind == Token::Kind::bad) return reader_.unexpected("';'");
      reader_.advance();
    }
    reader_.advance();
    return true;
  }
  const auto index = static_cast<std::uint32_t>(function_.code.size());
  if (!labels_.emplace(LabelKey{name.text, scope_}, Label{index, -1}).second) {
    return reader_.fail(name, fmt::format("the label {} stands twice", quoted(name.text)));
  }
  function_.labels.emplace_back(name.text, index);
  return true;
}

bool BodyParser::target_list(const Token& name) {
  reader_.advance();
  TargetList list{.scope = scope_, .names = {}};
  do {
    list.names.push_back(reader_.now());
    std::string_view ignored;
    if (!reader_.word(ignored, "a label")) return false;
  } while (reader_.accept(','));
  const Label label{.instruction = 0, .list = static_cast<std::int64_t>(lists_.size())};
  if (!labels_.emplace(LabelKey{name.text, scope_}, label).second) {
    return reader_.fail(name, fmt::format("the label {} stands twice", quoted(name.text)));
  }
  lists_.push_back(std::move(list));
  return reader_.expect(';', "behind the branch targets");
}

// .loc FILE LINE COLUMN [, function_name LABEL[+N], inlined_at FILE LINE COLUMN]
bool BodyParser::source_line() {
  using Place = std::array<std::int64_t, 3>;  // file, line, column
  const auto read = [&](Place& to) {
    return reader_.count(to[0], UINT32_MAX, "a file number") &&
           reader_.count(to[1], UINT32_MAX, "a line number") &&
           reader_.count(to[2], UINT32_MAX, "a column");
  };
  Place place{}, outer{};
  if (!read(place)) return false;
  while (reader_.accept(',')) {
    if (reader_.now().is_word("function_name")) {
      reader_.advance();
      std::string_view label;
      std::int64_t ignored = 0;
      if (!reader_.word(label, "the label of a function's name")) return false;
      if (reader_.accept('+') && !reader_.integer(ignored, "an offset")) return false;
    } else if (reader_.now().is_word("inlined_at")) {
      reader_.advance();
      if (!read(outer)) return false;
      if (const auto further = outer_.find(outer); further != outer_.end()) outer = further->second;
      outer_.emplace(place, outer);
    } else {
      return reader_.unexpected("function_name or inlined_at");
    }
  }
  const auto number = [&](const Place& of) {
    const auto known = module_.files.find(of[0]);
    return known == module_.files.end() ? std::uint16_t{0} : known->second;
  };
  source_ = {number(place), number(outer), static_cast<std::uint32_t>(place[1]),
             static_cast<std::uint32_t>(outer[1])};
  if (source_.file == 0) source_ = {};
  return true;
}

const BodyParser::Label* BodyParser::find_label(std::string_view name, std::uint32_t scope) const {
  for (;; scope = scope_parents_[scope]) {
    const auto found = labels_.find({name, scope});
    if (found != labels_.end()) return &found->second;
    if (scope == 0) return nullptr;
  }
}

bool BodyParser::resolve_labels() {
  std::size_t budget = reader_.text().size();  // expanded lists must not outgrow the text
  for (const Reference& each : references_) {
    const Label* label = find_label(each.name.text, each.scope);
    if (label == nullptr || (label->list >= 0) != each.list) {
      return reader_.fail(each.name,
                          fmt::format("{} is no {} of this function", quoted(each.name.text),
                                      each.list ? ".branchtargets list" : "label"));
    }
    if (each.list) {
      if (!resolve_list(each, *label, budget)) return false;
    } else {
      function_.code[each.instruction].operands[each.operand].index = label->instruction;
    }
  }
  return true;
}

bool BodyParser::resolve_list(const Reference& reference, const Label& label, std::size_t& budget) {
  const TargetList& list = lists_[static_cast<std::size_t>(label.list)];
  Operand& operand = function_.code[reference.instruction].operands[reference.operand];
  if (list.names.size() > budget) return reader_.fail(reference.name, "too many branch targets");
  budget -= list.names.size();
  for (const Token& name : list.names) {
    const Label* target = find_label(name.text, list.scope);
    if (target == nullptr || target->list >= 0) {
      return reader_.fail(name, fmt::format("{} is no label of this function", quoted(name.text)));
    }
    Operand part;
    part.kind = Operand::Kind::label;
    part.index = target->instruction;
    operand.parts.push_back(std::move(part));
  }
  return true;
}

Status parse_body(std::string_view text, std::size_t offset, std::uint32_t line,
                  const ModuleNames& module, Function& function) {
  return BodyParser(text, offset, line, module, function).parse();
}

}  // namespace microscale::emulator::ptx
