// setp, set, slct, testp.
#include <string>

#include "emulator/machine/binder.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator {

using ptx::Type;

namespace {

// "lt.s32", "eq.32", "ltu.f32.ftz"; empty when there is no such comparison.
std::string comparison(Binder& b, std::string_view word, Type type) {
  std::string compare(word);
  std::string name(ptx::name_of(type));
  if (is_float(type))
    return compare + "." + name + (b.take("ftz") && type == Type::f32 ? ".ftz" : "");
  const int bits = ptx::bits_of(type) == 64 ? 64 : 32;
  if (compare == "eq" || compare == "ne") return compare + "." + std::to_string(bits);
  if (compare == "lo" || compare == "ls" || compare == "hi" || compare == "hs") {
    compare = compare == "lo" ? "lt" : compare == "ls" ? "le" : compare == "hi" ? "gt" : "ge";
    return compare + ".u" + std::to_string(bits);
  }
  if (type == Type::s16) return compare + ".s16";
  return compare + (is_signed(type) ? ".s" : ".u") + std::to_string(bits);
}

std::string_view take_comparison(Binder& b) {
  return b.take_one_of({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu",
                        "ltu", "leu", "gtu", "geu", "num", "nan"});
}

// Behind the comparison's operands: a predicate to combine with.
void combine(Binder& b, std::string_view how, std::size_t position) {
  if (how.empty()) return;
  b.op.mode = how == "and" ? 1 : how == "or" ? 2 : 3;
  b.op.c = b.predicate(b.operand(position), 1);
}

void setp(Binder& b) {
  const std::string_view word = take_comparison(b), how = b.take_one_of({"and", "or", "xor"});
  Type type = Type::u32;
  if (!b.take_type(type) || word.empty())
    return b.refuse("has no comparison or type that this machine knows");
  const std::size_t first = b.in.two_predicates ? 2 : 1;
  b.op.d = b.predicate_destination(b.operand(0));
  if (b.in.two_predicates) b.op.extra = b.predicate_destination(b.operand(1));
  b.op.a = b.source(first, type);
  b.op.b = b.source(first + 1, type);
  combine(b, how, first + 2);
  b.use("setp." + comparison(b, word, type));
}

void set(Binder& b) {
  const std::string_view word = take_comparison(b), how = b.take_one_of({"and", "or", "xor"});
  Type result = Type::u32, type = Type::u32;
  if (!b.take_type(result) || !b.take_type(type) || word.empty() || is_pair(type))
    return b.refuse("has no comparison or type that this machine knows");
  b.op.d = b.destination(0, result);
  b.op.a = b.source(1, type);
  b.op.b = b.source(2, type);
  combine(b, how, 3);
  switch (result) {
    case Type::f32:
      b.op.value = 0x3f800000;
      break;
    case Type::f16:
      b.op.value = 0x3c00;
      break;
    case Type::bf16:
      b.op.value = 0x3f80;
      break;
    case Type::u16:
    case Type::s16:
      b.op.value = 0xffff;
      break;
    default:
      b.op.value = 0xffffffff;
  }
  b.use("set." + comparison(b, word, type));
}

}  // namespace

bool decode_compare(Binder& b) {
  const std::string_view opcode = b.in.opcode;
  if (opcode == "setp") {
    setp(b);
  } else if (opcode == "set") {
    set(b);
  } else if (opcode == "slct") {
    Type type = Type::b32, selector = Type::s32;
    const bool ftz = b.take("ftz");
    if (!b.take_type(type) || !b.take_type(selector)) return b.refuse("has no types"), true;
    b.op.d = b.destination(0, type);
    b.op.a = b.source(1, type);
    b.op.b = b.source(2, type);
    b.op.c = b.source(3, selector);
    b.use("slct." + std::string(ptx::bits_of(type) == 64 ? "64." : "32.") +
          std::string(ptx::name_of(selector)) + (ftz ? ".ftz" : ""));
  } else if (opcode == "testp") {
    constexpr std::string_view words[] = {"finite",     "infinite", "number",
                                          "notanumber", "normal",   "subnormal"};
    bool found = false;
    for (std::uint8_t i = 0; i < 6; ++i)
      if (b.take(words[i])) b.op.mode = i, found = true;
    Type type = Type::f32;
    if (!found || !b.take_type(type))
      return b.refuse("has no test or type that this machine knows"), true;
    b.op.d = b.predicate_destination(b.operand(0));
    b.op.a = b.source(1, type);
    b.use("testp." + std::string(ptx::name_of(type)));
  } else {
    return false;
  }
  return true;
}

}  // namespace microscale::emulator
