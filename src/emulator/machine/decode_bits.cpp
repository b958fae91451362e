// Logic, shifts, bit fields, permutation, selp.
#include <string>

#include "emulator/machine/binder.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator {

using ptx::Type;

namespace {

// and or xor not of predicates are masks' business.
void predicate_logic(Binder& b) {
  b.take("pred");
  const std::string_view opcode = b.in.opcode;
  b.op.mode = opcode == "and" ? 0 : opcode == "or" ? 1 : opcode == "xor" ? 2 : 3;
  b.op.d = b.predicate_destination(b.operand(0));
  b.op.a = b.predicate(b.operand(1), 1);
  if (opcode != "not") b.op.b = b.predicate(b.operand(2), 2);
  b.use("pred");
}

void lop3(Binder& b) {
  b.take("b32");
  if (b.count() == 6) return b.refuse("with a predicate is not known");
  std::int64_t table = 0;
  if (!b.immediate(b.operand(4), table) || table < 0 || table > 255)
    b.refuse("needs a truth table of 0 to 255");
  b.op.d = b.destination(0, Type::b32);
  b.op.a = b.source(1, Type::b32);
  b.op.b = b.source(2, Type::b32);
  b.op.c = b.source(3, Type::b32);
  b.op.value = table;
  b.use("lop3.32");
}

void permute(Binder& b) {
  b.take("b32");
  const std::string_view mode = b.take_one_of({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  b.op.d = b.destination(0, Type::b32);
  b.op.a = b.source(1, Type::b32);
  b.op.b = b.source(2, Type::b32);
  std::int64_t selector = 0;
  const bool constant = b.immediate(b.operand(3), selector) && mode.empty();
  b.op.c = b.source(3, Type::b32);
  b.op.value = selector;
  b.use(constant ? "prmt.constant" : mode.empty() ? "prmt" : "prmt." + std::string(mode));
}

}  // namespace

bool decode_bits(Binder& b) {
  const std::string_view opcode = b.in.opcode;
  Type type = Type::b32;
  if (opcode == "and" || opcode == "or" || opcode == "xor" || opcode == "not" || opcode == "cnot") {
    if (b.in.has("pred")) return predicate_logic(b), true;
    if (!b.take_type(type)) return b.refuse("has no type"), true;
    b.op.d = b.destination(0, type);
    b.op.a = b.source(1, type);
    const bool one = opcode == "not" || opcode == "cnot";
    if (!one) b.op.b = b.source(2, type);
    const std::string width = opcode == "not"            ? width_of(type)
                              : ptx::bits_of(type) == 64 ? "64"
                                                         : "32";
    b.use(std::string(opcode) + "." + width);
  } else if (opcode == "shl" || opcode == "shr") {
    if (!b.take_type(type)) return b.refuse("has no type"), true;
    b.op.d = b.destination(0, type);
    b.op.a = b.source(1, type);
    b.op.b = b.source(2, Type::u32);
    b.use(opcode == "shl" ? "shl." + width_of(type)
                          : "shr." + std::string(is_signed(type) ? "s" : "u") + width_of(type));
  } else if (opcode == "shf") {
    const std::string_view way = b.take_one_of({"l", "r"}), mode = b.take_one_of({"wrap", "clamp"});
    b.take("b32");
    b.op.d = b.destination(0, Type::b32);
    b.op.a = b.source(1, Type::b32);
    b.op.b = b.source(2, Type::b32);
    b.op.c = b.source(3, Type::u32);
    b.use("shf." + std::string(way) + "." + std::string(mode));
  } else if (opcode == "bfe") {
    if (!b.take_type(type)) return b.refuse("has no type"), true;
    b.op.d = b.destination(0, type);
    b.op.a = b.source(1, type);
    b.op.b = b.source(2, Type::u32);
    b.op.c = b.source(3, Type::u32);
    b.use("bfe." + std::string(ptx::name_of(type)));
  } else if (opcode == "bfi") {
    if (!b.take_type(type)) return b.refuse("has no type"), true;
    b.op.d = b.destination(0, type);
    b.op.a = b.source(1, type);
    b.op.b = b.source(2, type);
    b.op.c = b.source(3, Type::u32);
    b.lists({b.source(4, Type::u32)});
    b.use("bfi." + width_of(type));
  } else if (opcode == "bmsk" || opcode == "szext") {
    const std::string mode(b.take_one_of({"clamp", "wrap"}));
    if (!b.take_type(type)) return b.refuse("has no type"), true;
    b.op.d = b.destination(0, type);
    b.op.a = b.source(1, type);
    b.op.b = b.source(2, Type::u32);
    b.use(opcode == "bmsk" ? "bmsk." + mode
                           : "szext." + mode + "." + std::string(ptx::name_of(type)));
  } else if (opcode == "brev" || opcode == "popc" || opcode == "clz") {
    if (!b.take_type(type)) return b.refuse("has no type"), true;
    b.op.d = b.destination(0, opcode == "brev" ? type : Type::u32);
    b.op.a = b.source(1, type);
    b.use(std::string(opcode) + "." + width_of(type));
  } else if (opcode == "bfind") {
    const bool shift = b.take("shiftamt");
    if (!b.take_type(type)) return b.refuse("has no type"), true;
    b.op.d = b.destination(0, Type::u32);
    b.op.a = b.source(1, type);
    b.use(std::string("bfind.") + (shift ? "shiftamt." : "") + (is_signed(type) ? "s" : "u") +
          width_of(type));
  } else if (opcode == "fns") {
    b.take("b32");
    b.op.d = b.destination(0, Type::b32);
    b.op.a = b.source(1, Type::b32);
    b.op.b = b.source(2, Type::b32);
    b.op.c = b.source(3, Type::s32);
    b.use("fns.32");
  } else if (opcode == "selp") {
    if (!b.take_type(type)) return b.refuse("has no type"), true;
    b.op.d = b.destination(0, type);
    b.op.a = b.source(1, type);
    b.op.b = b.source(2, type);
    b.op.c = b.predicate(b.operand(3), 1);
    b.use(ptx::bits_of(type) == 64 ? "selp.64" : "selp.32");
  } else if (opcode == "lop3") {
    lop3(b);
  } else if (opcode == "prmt") {
    permute(b);
  } else {
    return false;
  }
  return true;
}

}  // namespace microscale::emulator
