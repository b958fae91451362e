// Instructions in which the lanes of a warp meet: shfl, vote, match, redux, activemask, elect.
#include <string>

#include "emulator/machine/binder.hpp"

namespace microscale::emulator {

using ptx::Type;

namespace {

void shuffle(Binder& b) {
  b.take("sync");
  constexpr std::string_view modes[] = {"up", "down", "bfly", "idx"};
  bool found = false;
  for (std::uint8_t i = 0; i < 4; ++i)
    if (b.take(modes[i])) b.op.mode = i, found = true;
  b.take("b32");
  if (!found) return b.refuse("has no mode");
  const std::size_t first = b.in.two_predicates ? 2 : 1;
  b.op.d = b.destination(0, Type::b32);
  if (b.in.two_predicates) b.op.extra = b.predicate_destination(b.operand(1));
  b.op.a = b.source(first, Type::b32);
  b.op.b = b.source(first + 1, Type::b32);
  b.op.c = b.source(first + 2, Type::b32);
  b.lists({b.source(first + 3, Type::b32)});
  b.use("shfl");
}

void vote(Binder& b) {
  b.take("sync");
  const std::string_view what = b.take_one_of({"all", "any", "uni", "ballot"});
  b.take_one_of({"pred", "b32"});
  if (what == "ballot")
    b.op.d = b.destination(0, Type::b32);
  else
    b.op.d = b.predicate_destination(b.operand(0));
  b.op.a = b.predicate(b.operand(1), 1);
  b.op.c = b.source(2, Type::b32);
  b.use("vote." + std::string(what));
}

void match(Binder& b) {
  const std::string_view what = b.take_one_of({"any", "all"});
  b.take("sync");
  Type type = Type::b32;
  if (!b.take_type(type)) return b.refuse("has no type");
  const std::size_t first = b.in.two_predicates ? 2 : 1;
  b.op.d = b.destination(0, Type::b32);
  if (b.in.two_predicates) b.op.extra = b.predicate_destination(b.operand(1));
  b.op.a = b.source(first, type);
  b.op.c = b.source(first + 1, Type::b32);
  b.use("match." + std::string(what) + "." + width_of(type));
}

void reduce(Binder& b) {
  b.take("sync");
  const std::string_view what = b.take_one_of({"add", "min", "max", "and", "or", "xor"});
  const bool abs = b.take("abs"), nan = b.take("NaN");
  Type type = Type::u32;
  if (!b.take_type(type) || what.empty())
    return b.refuse("has no operation or type that this machine knows");
  b.op.d = b.destination(0, type);
  b.op.a = b.source(1, type);
  b.op.c = b.source(2, Type::b32);
  std::string key = "redux." + std::string(what);
  if (type == Type::f32) {
    key += ".f32";
    b.op.mode = static_cast<std::uint8_t>((abs ? 1 : 0) | (nan ? 2 : 0));
  } else if (what == "min" || what == "max") {
    key += is_signed(type) ? ".s32" : ".u32";
  }
  b.use(key);
}

}  // namespace

bool decode_warp(Binder& b) {
  const std::string_view opcode = b.in.opcode;
  if (opcode == "activemask") {
    b.take("b32");
    b.op.d = b.destination(0, Type::b32);
    return b.use("activemask"), true;
  }
  const bool known = opcode == "shfl" || opcode == "vote" || opcode == "match" ||
                     opcode == "redux" || opcode == "elect";
  if (!known) return false;
  if (!b.in.has("sync")) return b.refuse("needs .sync"), true;
  if (opcode == "shfl")
    shuffle(b);
  else if (opcode == "vote")
    vote(b);
  else if (opcode == "match")
    match(b);
  else if (opcode == "redux")
    reduce(b);
  else {
    b.take("sync");
    b.op.d = b.destination(0, Type::b32);
    b.op.extra = b.in.two_predicates ? b.predicate_destination(b.operand(1)) : 0;
    b.op.c = b.source(b.in.two_predicates ? 2 : 1, Type::b32);
    b.use("elect");
  }
  return true;
}

}  // namespace microscale::emulator
