// atom and red.
#include <string>
#include <vector>

#include "emulator/machine/memory_words.hpp"
#include "emulator/ops/address.hpp"

namespace microscale::emulator {

using ptx::Type;

namespace {

bool atomic_type(Type type, AtomicType& out) {
  switch (type) {
    case Type::b16:
      out = AtomicType::b16;
      return true;
    case Type::b128:
      out = AtomicType::b128;
      return true;
    case Type::b32:
      out = AtomicType::b32;
      return true;
    case Type::b64:
      out = AtomicType::b64;
      return true;
    case Type::u32:
      out = AtomicType::u32;
      return true;
    case Type::s32:
      out = AtomicType::s32;
      return true;
    case Type::u64:
      out = AtomicType::u64;
      return true;
    case Type::s64:
      out = AtomicType::s64;
      return true;
    case Type::f32:
      out = AtomicType::f32;
      return true;
    case Type::f64:
      out = AtomicType::f64;
      return true;
    case Type::f16:
      out = AtomicType::f16;
      return true;
    case Type::bf16:
      out = AtomicType::bf16;
      return true;
    case Type::f16x2:
      out = AtomicType::f16x2;
      return true;
    case Type::bf16x2:
      out = AtomicType::bf16x2;
      return true;
    default:
      return false;
  }
}

// Elements side by side, each for itself: op.list has the results' rows, if any, then the
// operands'.
void vector(Binder& b, std::size_t count, Type type, const BoundAddress& bound, bool returns) {
  const auto bind = [&](const ptx::Operand& operand, bool writes,
                        std::vector<std::uint32_t>& slots) {
    if (operand.kind != ptx::Operand::Kind::vector || operand.parts.size() != count)
      return b.refuse("has a vector of another length than its name says");
    for (const ptx::Operand& part : operand.parts)
      slots.push_back(writes ? b.destination(part, type) : b.source(part, type));
  };
  std::vector<std::uint32_t> slots;
  if (returns) bind(b.operand(0), true, slots);
  bind(b.operand(returns ? 2 : 1), false, slots);
  if (b.refused()) return;
  b.op.d = static_cast<Slot>(b.op.count);  // the type; lists() sets the count
  b.lists(slots);
  b.op.a = bound.slot;
  b.op.value = bound.offset;
  b.use("atom.vector");
}

}  // namespace

bool decode_atomic(Binder& b) {
  const bool returns = b.in.opcode == "atom";
  if (!returns && b.in.opcode != "red") return false;
  if (b.in.has("async")) return b.refuse("is not known in this form"), true;
  const ptx::Space space = take_space(b);
  const Order order = take_order(b, Order::relaxed);
  const MemoryScope scope = take_scope(b, MemoryScope::gpu);
  take_cache_hints(b);
  b.take("noftz");
  const std::string_view word =
      b.take_one_of({"exch", "cas", "add", "inc", "dec", "min", "max", "and", "or", "xor"});
  const std::string_view width = b.take_one_of({"v2", "v4", "v8"});
  Type type = Type::u32;
  AtomicType its = AtomicType::u32;
  if (word.empty() || !b.take_type(type) || !atomic_type(type, its))
    return b.refuse("has no operation or type that this machine knows"), true;
  const AtomicOp operation = word == "exch"  ? AtomicOp::exch
                             : word == "cas" ? AtomicOp::cas
                             : word == "add" ? AtomicOp::add
                             : word == "inc" ? AtomicOp::inc
                             : word == "dec" ? AtomicOp::dec
                             : word == "min" ? AtomicOp::min
                             : word == "max" ? AtomicOp::max
                             : word == "and" ? AtomicOp::bit_and
                             : word == "or"  ? AtomicOp::bit_or
                                             : AtomicOp::bit_xor;
  const std::size_t first = returns ? 1 : 0;
  const BoundAddress bound = bind_address(b, b.operand(first), space);
  b.op.mode = static_cast<std::uint8_t>(operation);
  b.op.count = static_cast<std::uint8_t>(its);
  b.op.extra = AccessBits::make(space, bound.wide, 0, false, 0, order, scope, returns).bits;
  if (!width.empty()) {
    const bool arithmetic =
        operation == AtomicOp::add || operation == AtomicOp::min || operation == AtomicOp::max;
    if (!is_float(type) || !arithmetic || (type == Type::f32 && operation != AtomicOp::add))
      return b.refuse("has an operation or type that vectors have not"), true;
    return vector(b, static_cast<std::size_t>(width[1] - '0'), type, bound, returns), true;
  }
  if ((its == AtomicType::b16 && operation != AtomicOp::cas) ||
      (its == AtomicType::b128 && operation != AtomicOp::cas && operation != AtomicOp::exch))
    return b.refuse("has an operation that values of its width have not"), true;
  if (returns) b.op.d = b.destination(0, type);
  const bool compares = operation == AtomicOp::cas;
  if (compares) b.op.c = b.source(first + 1, type);
  b.op.b = b.source(first + (compares ? 2 : 1), type);
  b.op.a = bound.slot;
  b.op.value = bound.offset;
  b.use("atom");
  return true;
}

}  // namespace microscale::emulator
