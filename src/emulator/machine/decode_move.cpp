// mov in all its forms, cvta, mapa, getctarank, isspacep, and the special registers that change
// while a warp runs.
#include <string>
#include <vector>

#include "emulator/machine/binder.hpp"
#include "emulator/memory/access.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator {

using ptx::Operand;
using ptx::Type;
using Kind = Operand::Kind;

namespace {

Type part_type(Type whole, std::size_t parts) {
  switch (static_cast<std::size_t>(ptx::bits_of(whole)) / parts) {
    case 8:
      return Type::b8;
    case 16:
      return Type::b16;
    case 32:
      return Type::b32;
    default:
      return Type::b64;
  }
}

// mov.b128 d, a; of vectors {low, high}, which are then two registers of 64 bits.
void move_128(Binder& b) {
  std::vector<std::uint32_t> slots;
  for (const std::size_t position : {0u, 1u}) {
    const Operand& operand = b.operand(position);
    const bool reads = position == 1;
    if (operand.kind != Kind::vector) {
      const Slot slot = reads ? b.source(operand, Type::b128) : b.destination(operand, Type::b128);
      slots.insert(slots.end(), {slot, slot + row_bytes_64});
      continue;
    }
    if (operand.parts.size() != 2) return b.refuse("has a vector that does not fit");
    for (const Operand& part : operand.parts)
      slots.push_back(reads ? b.source(part, Type::b64) : b.destination(part, Type::b64));
  }
  b.lists(slots);
  b.use("mov.128");
}

// mov.b32 d, {a, b} and mov.b32 {d, e}, a.
void pack_or_unpack(Binder& b, Type type, bool packs) {
  const Operand& vector = b.operand(packs ? 1 : 0);
  const std::size_t parts = vector.parts.size();
  const auto whole = static_cast<std::size_t>(ptx::bits_of(type));
  if (parts == 0 || whole % parts || whole / parts < 8 || whole > 64)
    return b.refuse("has a vector that does not fit");
  const Type part = part_type(type, parts);
  std::vector<std::uint32_t> slots;
  for (const Operand& each : vector.parts)
    slots.push_back(packs ? b.source(each, part) : b.destination(each, part));
  b.lists(slots);
  b.op.mode = static_cast<std::uint8_t>(ptx::bits_of(part));
  const std::string rows = whole == 64 ? "64" : "32";
  if (packs)
    b.op.d = b.destination(0, type);
  else
    b.op.a = b.source(1, type);
  b.use((packs ? "pack." : "unpack.") + rows);
}

bool changes(ptx::SpecialRegister special) {
  using S = ptx::SpecialRegister;
  return special == S::clock || special == S::clock_hi || special == S::clock64 ||
         special == S::globaltimer || special == S::globaltimer_lo || special == S::globaltimer_hi;
}

void move(Binder& b) {
  if (b.take("pred")) {
    b.op.d = b.predicate_destination(b.operand(0));
    b.op.a = b.predicate(b.operand(1), 1);
    b.op.mode = 4;
    return b.use("pred");
  }
  Type type = Type::b32;
  if (!b.take_type(type)) return b.refuse("has no type that this machine knows");
  if (type == Type::b128) return move_128(b);
  const Operand& from = b.operand(1);
  if (from.kind == Kind::vector) return pack_or_unpack(b, type, true);
  if (b.operand(0).kind == Kind::vector) return pack_or_unpack(b, type, false);
  if (b.is_predicate(from)) return b.refuse("moves a predicate as a value");
  b.op.d = b.destination(0, type);
  const bool wide = ptx::bits_of(type) == 64;
  if (from.kind == Kind::special) {
    using S = ptx::SpecialRegister;
    if (changes(from.special)) {
      b.op.value = from.special == S::clock_hi || from.special == S::globaltimer_hi ? 32 : 0;
      return b.use(wide ? "clock.64" : "clock.32");
    }
    b.op.a = b.source(from, Type::u32);
    return b.use(wide ? "widen.32" : "mov.32");
  }
  b.op.a = b.source(from, type);
  b.use(wide ? "mov.64" : "mov.32");
}

bool window_of(Binder& b, std::uint64_t& window) {
  for (const auto& [word, value] : {std::pair<std::string_view, std::uint64_t>{"global", 0},
                                    {"shared", shared_window},
                                    {"shared::cta", shared_window},
                                    {"shared::cluster", shared_window},
                                    {"local", local_window},
                                    {"const", constant_window},
                                    {"param", param_window},
                                    {"param::entry", param_window}})
    if (b.take(word)) {
      window = value;
      return true;
    }
  return false;
}

void convert_address(Binder& b) {
  const bool to = b.take("to");
  std::uint64_t window = 0;
  Type type = Type::u64;
  if (!window_of(b, window) || !b.take_type(type) || type != Type::u64)
    return b.refuse("is not known in this form");
  b.op.d = b.destination(0, type);
  b.op.a = b.source(1, type);
  b.op.b = b.rows().constant64(to ? ~window_mask : window);
  b.use(window == 0 ? "mov.64" : to ? "and.64" : window == shared_window ? "cvta.shared" : "or.64");
}

}  // namespace

bool decode_move(Binder& b) {
  const std::string_view opcode = b.in.opcode;
  if (opcode == "mov") {
    move(b);
  } else if (opcode == "cvta") {
    convert_address(b);
  } else if (opcode == "isspacep") {
    std::uint64_t window = 0;
    if (!window_of(b, window)) return b.refuse("is not known in this form"), true;
    b.op.d = b.predicate_destination(b.operand(0));
    b.op.a = b.source(1, Type::u64);
    b.op.value = static_cast<std::int64_t>(window);
    b.use("isspacep");
  } else if (opcode == "mapa") {
    const bool shared = b.take("shared::cluster");
    Type type = Type::u32;
    if (!b.take_type(type)) return b.refuse("has no type"), true;
    b.op.d = b.destination(0, type);
    b.op.a = b.source(1, type);
    b.op.b = b.source(2, Type::u32);
    b.use(std::string("mapa.") + (shared ? "shared." : "generic.") + width_of(type));
  } else if (opcode == "getctarank") {
    const bool shared = b.take("shared::cluster");
    Type type = Type::u32;
    if (!b.take_type(type)) return b.refuse("has no type"), true;
    b.op.d = b.destination(0, Type::u32);
    b.op.a = b.source(1, type);
    b.use(std::string("getctarank.") + (shared ? "shared." : "generic.") + width_of(type));
  } else {
    return false;
  }
  return true;
}

}  // namespace microscale::emulator
