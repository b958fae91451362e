// add sub mul mad div rem min max abs neg sad mul24 mad24 dp4a dp2a and the carried forms, of
// integers.
#include <string>

#include "emulator/machine/binder.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator {

using ptx::Type;

namespace {

std::string sign_and_width(Type type) { return std::string(ptx::name_of(type)); }

void two_sources(Binder& b, Type type) {
  b.op.d = b.destination(0, type);
  b.op.a = b.source(1, type);
  b.op.b = b.source(2, type);
}

// add.cc, addc, sub.cc, subc: one carry bit per lane, in a predicate of the program's.
void carried(Binder& b, bool takes, bool subtracts) {
  Type type = Type::u32;
  const bool gives = b.take("cc");
  if (!b.take_type(type)) return b.refuse("has no type");
  b.op.mode = static_cast<std::uint8_t>((takes ? 1 : 0) | (gives ? 2 : 0) | (subtracts ? 4 : 0));
  b.op.extra = b.program().carry_predicate;
  two_sources(b, type);
  b.use("carried." + width_of(type));
}

// mad.lo.cc, madc.hi and their like: the same carry.
void carried_product(Binder& b, bool takes) {
  const std::string_view part = b.take_one_of({"lo", "hi"});
  const bool gives = b.take("cc");
  Type type = Type::u32;
  if (!b.take_type(type) || part.empty() || ptx::bits_of(type) < 32)
    return b.refuse("needs .lo or .hi and a type of 32 or 64 bits");
  b.op.mode = static_cast<std::uint8_t>((takes ? 1 : 0) | (gives ? 2 : 0) | (part == "hi" ? 8 : 0) |
                                        (is_signed(type) ? 16 : 0));
  b.op.extra = b.program().carry_predicate;
  two_sources(b, type);
  b.op.c = b.source(3, type);
  b.use("carried.product." + width_of(type));
}

Type doubled(Type type) {
  switch (type) {
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::u32:
      return Type::u64;
    default:
      return Type::s64;
  }
}

void multiply(Binder& b, bool adds) {
  const std::string_view part = b.take_one_of({"lo", "hi", "wide"});
  const bool saturates = b.take("sat");
  Type type = Type::u32;
  if (!b.take_type(type)) return b.refuse("has no type");
  if (part.empty()) return b.refuse("needs .lo, .hi or .wide");
  std::string key = std::string(b.in.opcode) + "." + std::string(part);
  if (saturates) key += ".sat";
  const bool of_24 = b.in.opcode == "mul24" || b.in.opcode == "mad24";
  key += "." + (part == "lo" && !of_24 ? width_of(type) : sign_and_width(type));
  const Type wide = part == "wide" ? doubled(type) : type;
  b.op.d = b.destination(0, wide);
  b.op.a = b.source(1, type);
  b.op.b = b.source(2, type);
  if (adds) b.op.c = b.source(3, wide);
  b.use(key);
}

// dp4a, dp2a: sums of products of the parts of two words; each word has its own sign.
void dot_product(Binder& b) {
  const std::string_view half = b.in.opcode == "dp2a" ? b.take_one_of({"lo", "hi"}) : "";
  Type left = Type::u32, right = Type::u32;
  if (!b.take_type(left) || !b.take_type(right)) return b.refuse("needs the types of both words");
  std::string key(b.in.opcode);
  if (!half.empty()) key += "." + std::string(half);
  b.op.d = b.destination(0, Type::b32);
  b.op.a = b.source(1, left);
  b.op.b = b.source(2, right);
  b.op.c = b.source(3, Type::b32);
  b.use(key + "." + sign_and_width(left) + "." + sign_and_width(right));
}

}  // namespace

bool decode_integer(Binder& b) {
  const std::string_view opcode = b.in.opcode;
  if (opcode == "addc" || opcode == "subc") return carried(b, true, opcode == "subc"), true;
  if (opcode == "madc" || (opcode == "mad" && b.in.has("cc")))
    return carried_product(b, opcode == "madc"), true;
  if (opcode == "dp4a" || opcode == "dp2a") return dot_product(b), true;
  if (!b.in.modifiers.empty()) {
    const auto type = ptx::type_of(b.in.modifiers.back());
    if ((type && is_float(*type)) || b.in.modifiers.back() == "f32x2") return false;
  }
  if (opcode == "mul" || opcode == "mul24" || opcode == "mad" || opcode == "mad24")
    return multiply(b, opcode.starts_with("mad")), true;
  if ((opcode == "add" || opcode == "sub") && b.in.has("cc"))
    return carried(b, false, opcode == "sub"), true;
  const bool plain = opcode == "add" || opcode == "sub",
             by_sign = opcode == "div" || opcode == "rem";
  const bool extreme = opcode == "min" || opcode == "max";
  const bool one = opcode == "abs" || opcode == "neg";
  if (!plain && !by_sign && !extreme && !one && opcode != "sad") return false;
  const bool saturates = plain && b.take("sat"), relu = extreme && b.take("relu");
  Type type = Type::u32;
  if (!b.take_type(type)) return b.refuse("has no type that this machine knows"), true;
  std::string key(opcode);
  if (saturates) key += ".sat";
  if (relu) key += ".relu";
  key += "." + ((plain && !saturates) || opcode == "neg" ? width_of(type) : sign_and_width(type));
  if (one) {
    b.op.d = b.destination(0, type);
    b.op.a = b.source(1, type);
  } else {
    two_sources(b, type);
    if (opcode == "sad") b.op.c = b.source(3, type);
  }
  b.use(key);
  return true;
}

}  // namespace microscale::emulator
