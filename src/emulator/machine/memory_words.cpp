#include "emulator/machine/memory_words.hpp"

#include <fmt/format.h>

namespace microscale::emulator {

using ptx::Operand;
using ptx::Space;
using ptx::Type;
using Kind = Operand::Kind;

Space take_space(Binder& b) {
  const std::string_view word =
      b.take_one_of({"global", "shared", "shared::cta", "shared::cluster", "local", "const",
                     "param", "param::entry", "param::func"});
  if (word == "global") return Space::global;
  if (word.starts_with("shared")) return Space::shared;
  if (word == "local") return Space::local;
  if (word == "const") return Space::constant;
  if (word.starts_with("param")) return Space::param;
  return Space::generic;
}

Order take_order(Binder& b, Order none) {
  const std::string_view word =
      b.take_one_of({"weak", "relaxed", "volatile", "acquire", "release", "acq_rel", "sc"});
  if (word == "weak") return Order::weak;
  if (word == "relaxed" || word == "volatile") return Order::relaxed;
  if (word == "acquire") return Order::acquire;
  if (word == "release") return Order::release;
  if (word == "acq_rel" || word == "sc") return Order::acq_rel;
  return none;
}

MemoryScope take_scope(Binder& b, MemoryScope none) {
  const std::string_view word = b.take_one_of({"cta", "cluster", "gpu", "sys", "gl"});
  if (word == "cta") return MemoryScope::cta;
  if (word == "cluster") return MemoryScope::cluster;
  if (word == "gpu" || word == "gl") return MemoryScope::gpu;
  if (word == "sys") return MemoryScope::sys;
  return none;
}

bool take_cache_hints(Binder& b) {
  bool policy = false;
  for (const std::string_view word : b.in.modifiers) {
    if (word == "L2::cache_hint") policy = true;
    const bool hint = word.starts_with("L1::") || word.starts_with("L2::") || word == "nc" ||
                      word == "ca" || word == "cg" || word == "cs" || word == "lu" ||
                      word == "cv" || word == "wb" || word == "wt";
    if (hint) b.take(word);
  }
  return policy;
}

BoundAddress bind_address(Binder& b, const Operand& operand, Space space) {
  BoundAddress bound;
  if (operand.kind != Kind::address) {
    b.refuse("has an operand that should be an address");
    return bound;
  }
  bound.offset = operand.value;
  if (operand.base == Kind::reg) {
    const Type type = ptx::bits_of(b.function().text->registers[operand.index].type) == 64
                          ? Type::b64
                          : Type::b32;
    Operand base = operand;
    base.kind = Kind::reg;
    bound.slot = b.source(base, type);
    bound.wide = type == Type::b64;
    return bound;
  }
  bound.constant = true;
  bound.wide = true;
  bound.slot = b.rows().constant64(0);
  if (operand.base == Kind::variable) {
    Space has = Space::generic;
    if (!b.variable_address(operand, bound.offset, has)) return bound;
    if (has != space && !(space == Space::generic && has == Space::global))
      b.refuse(fmt::format("names {}, which is in another space", b.variable(operand).name));
  }
  return bound;
}

}  // namespace microscale::emulator
