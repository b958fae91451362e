#include <fmt/format.h>

#include <bit>
#include <utility>

#include "emulator/ptx/body_parser.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator::ptx {
namespace {

using Kind = Operand::Kind;

// Bits of a real as the instruction's last type wants it: PTX converts 0d to f32 and 0f to f64.
void fit_real(Operand& operand, std::string_view type) {
  if (operand.kind == Kind::real64 && type == "f32") {
    const double value = std::bit_cast<double>(operand.value);
    operand.kind = Kind::real32;
    operand.value = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  } else if (operand.kind == Kind::real32 && type == "f64") {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(operand.value));
    operand.kind = Kind::real64;
    operand.value = std::bit_cast<std::int64_t>(static_cast<double>(value));
  }
}

}  // namespace

bool BodyParser::instruction(const Token& opcode, Guard guard) {
  next_.opcode = opcode.text;
  next_.guard = guard;
  next_.line = opcode.line;
  next_.source = source_;
  next_.two_predicates = false;
  next_.modifiers.clear();
  next_.operands.clear();
  while (reader_.now().kind == Token::Kind::dot) {
    next_.modifiers.push_back(reader_.now().text);
    reader_.advance();
  }
  if (opcode.text == "call") {
    if (!call()) return false;
  } else if (!reader_.now().is(';')) {
    const bool branch = opcode.text == "bra", indexed = opcode.text == "brx";
    do {
      if ((branch || (indexed && next_.operands.size() == 1)) &&
          reader_.now().kind == Token::Kind::word) {
        label_operand(indexed);
      } else {
        Operand& each = next_.operands.emplace_back();
        if (!operand(each)) return false;
        if (!next_.modifiers.empty()) fit_real(each, next_.modifiers.back());
        if (next_.operands.size() == 1 && reader_.accept('|')) {
          next_.two_predicates = true;
          if (!operand(next_.operands.emplace_back())) return false;
        }
      }
    } while (reader_.accept(','));
  }
  if (!reader_.now().is(';')) {
    return reader_.unexpected(fmt::format("',' or ';' behind an operand of {}", next_.opcode));
  }
  function_.code.push_back(next_);  // a copy has no spare room
  reader_.advance();
  return true;
}

void BodyParser::label_operand(bool list) {
  Operand& operand = next_.operands.emplace_back();
  operand.kind = list ? Kind::vector : Kind::label;
  references_.push_back({static_cast<std::uint32_t>(function_.code.size()),
                         static_cast<std::uint32_t>(next_.operands.size() - 1), scope_,
                         reader_.now(), list});
  reader_.advance();
}

// call[.uni] [(results),] function [, (arguments)]
bool BodyParser::call() {
  next_.operands.resize(3);
  const auto list = [this](Operand& values) {
    values.kind = Kind::vector;
    if (!reader_.accept('(')) return true;
    while (!reader_.now().is(')')) {
      const Token at = reader_.now();
      Operand& each = values.parts.emplace_back();
      if (!operand(each)) return false;
      const bool param = each.kind == Kind::variable && each.scope == Scope::function &&
                         each.value == 0 && function_.variables[each.index].space == Space::param;
      if (!param) {
        return reader_.fail(at, "only .param variables can be passed to a call here",
                            ErrorCode::unsupported);
      }
      if (!reader_.accept(',')) break;
    }
    return reader_.expect(')', "behind the values of a call");
  };
  if (!list(next_.operands[0])) return false;
  if (!next_.operands[0].parts.empty() && !reader_.expect(',', "behind the results of a call"))
    return false;
  const Token name = reader_.now();
  if (name.kind != Token::Kind::word) return reader_.unexpected("the name of a function");
  next_.operands[2].kind = Kind::vector;
  if (symbols_.find(name.text) != nullptr) {  // through a register
    if (!find_name(name, next_.operands[1])) return false;
    const Operand& callee = next_.operands[1];
    if (callee.kind != Kind::reg || bits_of(function_.registers[callee.index].type) != 64)
      return reader_.fail(
          name, fmt::format("{} is no function and no register of 64 bits", quoted(name.text)));
    reader_.advance();
    while (reader_.accept(',')) {  // arguments, then a prototype or a list of targets
      if (reader_.now().is('(')) {
        if (!list(next_.operands[2])) return false;
      } else {
        std::string_view ignored;
        if (!reader_.word(ignored, "the name of a prototype")) return false;
      }
    }
    return true;
  }
  const auto found = module_.names.find(name.text);
  if (found == module_.names.end() || !found->second.is_function) {
    return reader_.fail(name, fmt::format("{} is no function of this module", quoted(name.text)));
  }
  const Function& callee = (*module_.functions)[found->second.index];
  if (callee.entry) return reader_.fail(name, fmt::format("{} is an entry", quoted(name.text)));
  next_.operands[1].kind = Kind::function;
  next_.operands[1].index = found->second.index;
  reader_.advance();
  if (reader_.accept(',') && !list(next_.operands[2])) return false;
  const auto agree = [&](const std::vector<Variable>& formal, const Operand& actual,
                         const char* what) {
    if (formal.size() != actual.parts.size()) {
      return reader_.fail(name, fmt::format("{} has {} {}, the call gives {}", quoted(name.text),
                                            formal.size(), what, actual.parts.size()));
    }
    for (std::size_t i = 0; i < formal.size(); ++i) {
      const std::int64_t bytes = function_.variables[actual.parts[i].index].bytes;
      if (bytes != formal[i].bytes) {
        return reader_.fail(
            name, fmt::format("of the {} of {}, number {} has {} bytes, the call's has {}", what,
                              quoted(name.text), i + 1, formal[i].bytes, bytes));
      }
    }
    return true;
  };
  return agree(callee.results, next_.operands[0], "results") &&
         agree(callee.params, next_.operands[2], "parameters");
}

bool BodyParser::operand(Operand& operand) {
  const Token& at = reader_.now();
  if (at.kind == Token::Kind::word) return name(operand);
  if (at.is('[')) return address(operand);
  if (at.is('{')) return vector(operand);
  if (at.is('!')) {
    reader_.advance();
    const Token predicate = reader_.now();
    if (predicate.kind != Token::Kind::word) return reader_.unexpected("a predicate behind '!'");
    operand.negated = true;
    if (!name(operand)) return false;
    if (operand.kind == Kind::reg && function_.registers[operand.index].type == Type::pred)
      return true;
    return reader_.fail(predicate, fmt::format("{} is not a predicate", quoted(predicate.text)));
  }
  return number(operand);
}

bool BodyParser::number(Operand& operand) {
  const bool negative = reader_.accept('-');
  const Token at = reader_.now();
  if (at.kind == Token::Kind::real32) {
    operand.kind = Kind::real32;
    operand.value = static_cast<std::int64_t>(at.value ^ (negative ? 0x8000'0000u : 0u));
  } else if (at.kind == Token::Kind::real64 || at.kind == Token::Kind::decimal) {
    operand.kind = Kind::real64;
    operand.value = static_cast<std::int64_t>(at.value ^ (negative ? std::uint64_t{1} << 63 : 0));
  } else {
    operand.kind = Kind::integer;
    if (!reader_.integer(operand.value, "an operand")) return false;
    if (negative)
      operand.value = static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(operand.value));
    return true;
  }
  reader_.advance();
  return true;
}

bool BodyParser::vector(Operand& operand) {
  reader_.advance();
  operand.kind = Kind::vector;
  parts_.clear();
  do {
    if (reader_.now().is('{') || reader_.now().is('['))
      return reader_.unexpected("an element of a vector");
    if (!this->operand(parts_.emplace_back())) return false;
  } while (reader_.accept(','));
  operand.parts = parts_;
  return reader_.expect('}', "behind the elements of a vector");
}

// [a], [a+4], [a+-4], [16], [map, {x, y}]
bool BodyParser::address(Operand& operand) {
  reader_.advance();
  operand.kind = Kind::address;
  const Token at = reader_.now();
  if (at.kind == Token::Kind::word && at.text != "WARP_SZ") {
    Operand base;
    if (!find_name(at, base)) return false;
    if (base.kind != Kind::reg && base.kind != Kind::variable) {
      return reader_.fail(at, fmt::format("{} has no address", quoted(at.text)));
    }
    operand.base = base.kind;
    operand.scope = base.scope;
    operand.index = base.index;
    reader_.advance();
    if ((reader_.now().is('+') || reader_.now().is('-')) &&
        !reader_.integer(operand.value, "an offset")) {
      return false;
    }
  } else if (!reader_.integer(operand.value, "an address")) {
    return false;
  }
  if (reader_.accept(',')) {
    Operand coordinates;
    if (!reader_.now().is('{')) return reader_.unexpected("'{' before coordinates");
    if (!vector(coordinates)) return false;
    operand.parts = std::move(coordinates.parts);
  }
  return reader_.expect(']', "behind an address");
}

// Registers and variables of the body, then those of the module.
bool BodyParser::find_name(const Token& token, Operand& operand) {
  if (const Symbols::Symbol* symbol = symbols_.find(token.text)) {
    operand.kind = symbol->kind == Symbols::Kind::reg ? Kind::reg : Kind::variable;
    operand.index = symbol->index;
    return true;
  }
  const auto found = module_.names.find(token.text);
  if (found == module_.names.end()) {
    return reader_.fail(token, fmt::format("unknown name {}", quoted(token.text)));
  }
  operand.kind = found->second.is_function ? Kind::function : Kind::variable;
  operand.scope = Scope::module;
  operand.index = found->second.index;
  return true;
}

bool BodyParser::name(Operand& operand) {
  const Token token = reader_.now();
  if (token.text == "_") {
    reader_.advance();
    return true;
  }
  if (token.text == "WARP_SZ") return number(operand);
  if (token.text[0] == '%' && symbols_.find(token.text) == nullptr) return special(token, operand);
  if (!find_name(token, operand)) return false;
  reader_.advance();
  if (reader_.now().kind == Token::Kind::dot) {
    return reader_.fail(reader_.now(),
                        fmt::format("elements of {} cannot be named", quoted(token.text)));
  }
  if (operand.kind == Kind::variable && (reader_.now().is('+') || reader_.now().is('-'))) {
    return reader_.integer(operand.value, "an offset");
  }
  return true;
}

bool BodyParser::special(const Token& token, Operand& operand) {
  const auto found = special_of(token.text);
  if (!found) return reader_.fail(token, fmt::format("unknown name {}", quoted(token.text)));
  operand.kind = Kind::special;
  operand.special = found->special;
  reader_.advance();
  if (!found->has_components) return true;
  const Token& component = reader_.now();
  if (component.kind != Token::Kind::dot || component.text.size() != 1 || component.text[0] < 'x' ||
      component.text[0] > 'z') {
    return reader_.unexpected(fmt::format(".x, .y or .z behind {}", token.text));
  }
  operand.component = static_cast<std::uint8_t>(component.text[0] - 'x');
  reader_.advance();
  return true;
}

}  // namespace microscale::emulator::ptx
