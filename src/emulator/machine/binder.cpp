#include "emulator/machine/binder.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "emulator/memory/access.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator {

using ptx::Operand;
using ptx::Space;
using ptx::Type;
using Kind = Operand::Kind;

bool is_float(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f16x2 || type == Type::bf16x2 ||
         type == Type::f32 || type == Type::f64 || type == Type::tf32;
}
bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64 ||
         type == Type::s16x2;
}
bool is_pair(Type type) {
  return type == Type::u16x2 || type == Type::s16x2 || type == Type::f16x2 || type == Type::bf16x2;
}
std::string width_of(Type type) {
  return type == Type::u16x2 || type == Type::s16x2 ? "16x2" : std::to_string(ptx::bits_of(type));
}

Rows::Rows(Program& program) : program_(program) {
  scratch_ = own(128);
  program_.constants.resize(1);
}

Slot Rows::own(int bits) {
  const Slot slot = program_.row_bytes;
  program_.row_bytes += bits == 128 ? 2 * row_bytes_64 : bits == 64 ? row_bytes_64 : 128;
  return slot;
}

template <class T>
Slot Rows::constant(T value) {
  ConstantBytes part;
  for (std::size_t i = 0; i < sizeof part; i += sizeof value)
    std::memcpy(part.bytes + i, &value, sizeof value);
  const std::size_t at = sizeof part * program_.constants.size();
  program_.constants.insert(program_.constants.end(), warp_lanes * sizeof value / sizeof part,
                            part);
  return static_cast<Slot>(at) - constants_bias;
}

Slot Rows::constant32(std::uint32_t value) {
  const auto [place, made] = constants32_.try_emplace(value, 0);
  if (made) place->second = constant(value);
  return place->second;
}

Slot Rows::constant64(std::uint64_t value) {
  const auto [place, made] = constants64_.try_emplace(value, 0);
  if (made) place->second = constant(value);
  return place->second;
}

Slot Rows::special(ptx::SpecialRegister special, int component) {
  const auto [place, made] = specials_.try_emplace({static_cast<int>(special), component}, 0);
  if (made) {
    place->second = own(32);
    program_.reserved_shared |= special >= ptx::SpecialRegister::reserved_smem_offset_begin &&
                                special <= ptx::SpecialRegister::reserved_smem_offset_1;
    program_.specials.push_back({special, static_cast<std::uint8_t>(component), place->second});
  }
  return place->second;
}

const std::uint32_t* Rows::list(const std::vector<std::uint32_t>& slots) {
  auto copy = std::make_unique<std::uint32_t[]>(slots.size() + 1);
  std::copy(slots.begin(), slots.end(), copy.get());
  program_.lists.push_back(std::move(copy));
  return program_.lists.back().get();
}

Binder::Binder(const ptx::Module& module, const ptx::SharedLayout& shared,
               const VariableAddresses& addresses, Program& program, Rows& rows,
               const FunctionState& function, const ptx::Instruction& in)
    : in(in),
      module_(module),
      shared_(shared),
      addresses_(addresses),
      program_(program),
      rows_(rows),
      function_(function) {
  info.opcode = in.opcode;
  info.line = in.line;
  info.source = in.source;
  info.function = function.number;
  if (in.guard.present) {
    op.guard = function.registers[in.guard.reg];
    op.guard_flip = in.guard.negated ? ~0u : 0;
    info.reads.push_back(program.functions[function.number].first_register + in.guard.reg);
    info.guard_reads = 1;
  }
}

bool Binder::take(std::string_view modifier) {
  for (std::size_t i = 0; i < in.modifiers.size(); ++i)
    if (in.modifiers[i] == modifier && !(taken_ >> i & 1)) {
      taken_ |= std::uint64_t{1} << i;
      return true;
    }
  return false;
}

std::string_view Binder::take_one_of(std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    if (take(word)) return word;
  return {};
}

bool Binder::take_type(Type& type) {
  for (std::size_t i = 0; i < in.modifiers.size(); ++i)
    if (const auto found = ptx::type_of(in.modifiers[i]); found && !(taken_ >> i & 1)) {
      taken_ |= std::uint64_t{1} << i;
      type = *found;
      return true;
    }
  return false;
}

std::string_view Binder::take_next() {
  for (std::size_t i = 0; i < in.modifiers.size(); ++i)
    if (!(taken_ >> i & 1)) {
      taken_ |= std::uint64_t{1} << i;
      return in.modifiers[i];
    }
  return {};
}

const Operand& Binder::operand(std::size_t position) {
  static const Operand none;
  if (position < in.operands.size()) return in.operands[position];
  refuse(fmt::format("has {} operands, fewer than it needs", in.operands.size()));
  return none;
}

std::uint32_t Binder::bind_register(const Operand& operand, Type type, bool wider, bool writes) {
  const ptx::Register& reg = function_.text->registers[operand.index];
  const int has = ptx::bits_of(reg.type), needs = ptx::bits_of(type);
  // 8-bit values have no registers of their own width but .b8, and go in 16-bit ones.
  if (has != needs && !(wider && has > needs && has <= 64 && needs <= 64) &&
      !(needs == 8 && has == 16)) {
    refuse(fmt::format("takes register {} of {} bits as .{}", reg.name, has, ptx::name_of(type)));
    return 0;
  }
  const std::uint32_t written = program_.functions[function_.number].first_register + operand.index;
  (writes ? info.writes : info.reads).push_back(written);
  return function_.registers[operand.index];
}

bool Binder::is_predicate(const Operand& operand) const {
  return operand.kind == Kind::reg && function_.text->registers[operand.index].type == Type::pred;
}

int Binder::row_bits(const Operand& operand, Type type) const {
  if (operand.kind == Kind::reg)
    return ptx::bits_of(function_.text->registers[operand.index].type) == 64 ? 64 : 32;
  return ptx::bits_of(type) == 64 ? 64 : 32;
}

bool Binder::immediate(const Operand& operand, std::int64_t& value) const {
  value = operand.value;
  return operand.kind == Kind::integer || operand.kind == Kind::real32 ||
         operand.kind == Kind::real64;
}

Slot Binder::source(const Operand& operand, Type type, bool wider) {
  const int bits = ptx::bits_of(type);
  if (bits == 128 && operand.kind != Kind::reg) {
    refuse("takes 128 bits from what is no register of them");
    return 0;
  }
  switch (operand.kind) {
    case Kind::reg:
      return bind_register(operand, type, wider, false);
    case Kind::special:
      if (bits != 32) refuse("takes a special register as other than 32 bits; move it first");
      return rows_.special(operand.special, operand.component);
    case Kind::variable: {
      std::int64_t address = 0;
      Space space;
      if (!variable_address(operand, address, space)) return 0;
      return bits == 64 ? rows_.constant64(static_cast<std::uint64_t>(address))
                        : rows_.constant32(static_cast<std::uint32_t>(address));
    }
    case Kind::function:
      if (bits != 64) refuse("takes the address of a function as other than 64 bits");
      return rows_.constant64(function_window + 16 * std::uint64_t{operand.index});
    case Kind::integer:
    case Kind::real32:
    case Kind::real64: {
      auto value = static_cast<std::uint64_t>(operand.value);
      if (operand.kind == Kind::real64 && bits == 32)
        value =
            std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(operand.value)));
      if (operand.kind == Kind::real32 && bits == 64 && type == Type::f64)
        value = std::bit_cast<std::uint64_t>(
            static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(value))));
      if (bits == 64) return rows_.constant64(value);
      return rows_.constant32(static_cast<std::uint32_t>(value) &
                              (bits < 32 ? (1u << bits) - 1 : ~0u));
    }
    default:
      refuse("has an operand that is no value");
      return 0;
  }
}

Slot Binder::destination(const Operand& operand, Type type, bool wider) {
  if (operand.kind == Kind::sink) return rows_.scratch();
  if (operand.kind == Kind::reg && !is_predicate(operand))
    return bind_register(operand, type, wider, true);
  refuse("has a destination that is no register of values");
  return 0;
}

std::uint32_t Binder::predicate(const Operand& operand, int position) {
  if (operand.kind == Kind::integer)
    return (operand.value != 0) != operand.negated ? always : never;
  if (!is_predicate(operand)) {
    refuse("has an operand that should be a predicate");
    return 0;
  }
  if (operand.negated) op.negate |= static_cast<std::uint8_t>(1 << position);
  return bind_register(operand, Type::pred, false, false);
}

std::uint32_t Binder::predicate_destination(const Operand& operand) {
  if (operand.kind == Kind::sink) return 0;
  if (is_predicate(operand)) return bind_register(operand, Type::pred, false, true);
  refuse("has a destination that should be a predicate");
  return 0;
}

const ptx::Variable& Binder::variable(const Operand& operand) const {
  return operand.scope == ptx::Scope::module ? module_.variables()[operand.index]
                                             : function_.text->variables[operand.index];
}

bool Binder::variable_address(const Operand& operand, std::int64_t& address, Space& space) {
  const ptx::Variable& its = variable(operand);
  space = its.space;
  address = operand.value;
  const bool module_wide = operand.scope == ptx::Scope::module;
  switch (its.space) {
    case Space::global:
    case Space::constant:
      if (!module_wide) {
        refuse(fmt::format("names {}, a variable of a space that functions have not", its.name));
        return false;
      }
      address += static_cast<std::int64_t>(addresses_[operand.index]);
      return true;
    case Space::shared:
      if (its.external && its.bytes == 0)
        address += shared_.static_bytes;
      else if (module_wide)
        address += shared_.module_offset[operand.index];
      else
        address += its.offset + function_.shared_base;
      return true;
    case Space::local:
      address += its.offset + function_.local_base;
      return true;
    case Space::param: {
      const std::int64_t offset = function_.call_offset[operand.index];
      address += offset < 0 ? its.offset : offset;
      return true;
    }
    case Space::generic:
      break;
  }
  refuse(fmt::format("names {}, which has no address", its.name));
  return false;
}

void Binder::use(const std::string& key) {
  op.run = find_handler(key);
  if (!op.run) refuse("is not known with these modifiers and types");
}

void Binder::lists(const std::vector<std::uint32_t>& slots) {
  op.list = rows_.list(slots);
  op.count = static_cast<std::uint8_t>(slots.size());
}

void Binder::refuse(const std::string& what) {
  if (problem_.empty()) problem_ = what;
}

std::string Binder::finish() {
  std::string name(in.opcode);
  for (const std::string_view modifier : in.modifiers) name += fmt::format(".{}", modifier);
  if (problem_.empty())
    if (const std::string_view left = take_next(); !left.empty())
      problem_ = fmt::format("has the modifier .{}, which this machine does not know there", left);
  return problem_.empty() ? "" : fmt::format("line {}: {} {}", in.line, name, problem_);
}

}  // namespace microscale::emulator
