// mbarrier, and the copies that complete at one: cp.async.bulk without tensor maps,
// cp.async.mbarrier.arrive.
#include <string>
#include <vector>

#include "emulator/machine/memory_words.hpp"
#include "emulator/ops/address.hpp"
#include "emulator/ops/mbarrier.hpp"

namespace microscale::emulator {

using ptx::Operand;
using ptx::Space;
using ptx::Type;

namespace {

/// op.a, op.value and op.extra from the operand that names the object.
void bind_object(Binder& b, std::size_t position) {
  const bool shared = b.in.has("shared") || b.in.has("shared::cta") || b.in.has("shared::cluster");
  const Order order = take_order(b, Order::release);
  const MemoryScope scope = take_scope(b, MemoryScope::cta);
  const Space space = take_space(b);
  if (!b.take("b64")) return b.refuse("has no .b64");
  const BoundAddress bound = bind_address(b, b.operand(position), shared ? space : Space::generic);
  b.op.a = bound.slot;
  b.op.value = bound.offset;
  b.op.extra = AccessBits::make(shared ? Space::shared : Space::generic, bound.wide, 3, false, 1,
                                order, scope)
                   .bits;
}

void arrive(Binder& b) {
  const bool expects = b.take("expect_tx");
  bind_object(b, 1);
  if (b.refused()) return;
  b.op.d = b.destination(0, Type::b64);
  Slot one = b.rows().constant32(1), none = b.rows().constant32(0);
  if (b.count() > 2)
    (expects ? none : one) = b.source(2, Type::u32);
  else if (expects)
    return b.refuse("needs a number of bytes");
  b.op.b = one;
  b.op.c = none;
  b.use("mbarrier.arrive");
}

void wait(Binder& b, bool blocks) {
  const bool parity = b.take("parity");
  bind_object(b, 1);
  if (b.refused() || b.count() < 3)
    return b.refuse("needs a predicate, an mbarrier and a state or parity");
  b.op.d = b.predicate_destination(b.operand(0));
  b.op.b = b.source(2, parity ? Type::u32 : Type::b64);
  if (b.count() > 3) (void)b.source(3, Type::u32);  // how long to suspend at most: only a hint
  b.op.mode = static_cast<std::uint8_t>((parity ? by_parity : 0) | (blocks ? may_block : 0));
  b.use("mbarrier.wait");
}

void mbarrier(Binder& b) {
  if (b.take("init")) {
    bind_object(b, 0);
    if (!b.refused()) b.op.b = b.source(1, Type::u32);
    return b.use("mbarrier.init");
  }
  if (b.take("inval")) {
    bind_object(b, 0);
    return b.use("mbarrier.inval");
  }
  if (b.take("arrive")) return arrive(b);
  if (b.take("test_wait")) return wait(b, false);
  if (b.take("try_wait")) return wait(b, true);
  const bool expects = b.take("expect_tx");
  if (!expects && !b.take("complete_tx")) return b.refuse("is not known to this machine");
  bind_object(b, 0);
  if (b.refused()) return;
  const Slot bytes = b.source(1, Type::u32);
  b.op.d = b.rows().scratch();
  b.op.b = expects ? b.rows().constant32(0) : bytes;
  b.op.c = bytes;
  b.use(expects ? "mbarrier.arrive" : "mbarrier.complete_tx");
}

/// cp.async.bulk TO.FROM, completing at an mbarrier or in a bulk group.
void bulk(Binder& b) {
  const auto& words = b.in.modifiers;  // async, bulk, where to, where from
  if (words.size() < 5 || (words[2] == "global" && words[3] == "global"))
    return b.refuse("does not copy between global and shared memory");
  const bool to_shared = words[2] != "global", from_shared = words[3] != "global";
  b.take("global"), b.take("shared::cluster"), b.take("shared::cta");
  const bool barrier = b.take("mbarrier::complete_tx::bytes");
  if (!barrier && !b.take("bulk_group")) return b.refuse("has no completion mechanism");
  const bool policy = take_cache_hints(b);
  if (b.count() != 3u + barrier + policy) return b.refuse("has a wrong number of operands");
  const BoundAddress to = bind_address(b, b.operand(0), to_shared ? Space::shared : Space::global);
  const BoundAddress from =
      bind_address(b, b.operand(1), from_shared ? Space::shared : Space::global);
  if (b.refused()) return;
  const auto low = [](std::int64_t offset) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(offset));
  };
  const auto high = [](std::int64_t offset) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(offset) >> 32);
  };
  std::vector<std::uint32_t> list = {low(from.offset), high(from.offset), b.source(2, Type::u32)};
  b.op.extra = (to.wide ? bulk_wide_to : 0u) | (from.wide ? bulk_wide_from : 0u) |
               (to_shared ? bulk_to_shared : 0u) | (from_shared ? bulk_from_shared : 0u);
  if (barrier) {
    const BoundAddress at = bind_address(b, b.operand(3), Space::shared);
    list.insert(list.end(), {at.slot, low(at.offset), high(at.offset)});
    b.op.extra |= bulk_has_barrier | (at.wide ? bulk_wide_barrier : 0u);
  }
  if (policy) (void)b.source(3u + barrier, Type::b64);
  b.op.a = to.slot;
  b.op.b = from.slot;
  b.op.value = to.offset;
  b.lists(list);
  b.use("cp.async.bulk");
}

}  // namespace

bool decode_mbarrier(Binder& b) {
  if (b.in.opcode == "mbarrier") {
    mbarrier(b);
    return true;
  }
  if (b.in.opcode != "cp" || !b.in.has("async")) return false;
  if (b.in.has("commit_group") || b.in.has("wait_group") || b.in.has("tensor") ||
      b.in.has("prefetch"))
    return false;
  if (b.in.has("mbarrier")) {
    b.take("async"), b.take("mbarrier"), b.take("arrive");
    b.op.mode = b.take("noinc");
    bind_object(b, 0);
    b.use("cp.async.mbarrier.arrive");
    return true;
  }
  if (!b.in.has("bulk")) return false;
  b.take("async"), b.take("bulk");
  bulk(b);
  return true;
}

}  // namespace microscale::emulator
