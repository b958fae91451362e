// ld, st, prefetch and their like, fences.
#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "emulator/machine/memory_words.hpp"
#include "emulator/ops/address.hpp"

namespace microscale::emulator {

using ptx::Operand;
using ptx::Space;
using ptx::Type;
using Kind = Operand::Kind;

namespace {

int register_bits(const Binder& b, const Operand& operand, Type type) {
  if (operand.kind == Kind::reg)
    return ptx::bits_of(b.function().text->registers[operand.index].type);
  return std::max(16, ptx::bits_of(type));
}

// The value operands of a load or store, one or a vector, bound in op.list. False when refused.
bool bind_values(Binder& b, const Operand& operand, Type type, std::size_t count, bool loads,
                 int& container) {
  std::vector<Operand> parts =
      operand.kind == Kind::vector ? operand.parts : std::vector<Operand>{operand};
  if (parts.size() != count) {
    b.refuse("has a vector of another length than its name says");
    return false;
  }
  if (type == Type::b128) {  // as two of 64 bits
    std::vector<std::uint32_t> halves;
    for (const Operand& part : parts) {
      const Slot slot = loads ? b.destination(part, type) : b.source(part, type);
      halves.insert(halves.end(), {slot, slot + row_bytes_64});
    }
    b.lists(halves);
    container = 64;
    return !b.refused();
  }
  container = 0;
  for (const Operand& part : parts)
    if (part.kind == Kind::reg) container = std::max(container, register_bits(b, part, type));
  if (container == 0) container = std::max(16, ptx::bits_of(type));
  std::vector<std::uint32_t> slots;
  for (const Operand& part : parts) {
    if (part.kind == Kind::reg && register_bits(b, part, type) != container) {
      b.refuse("has registers of different widths");
      return false;
    }
    slots.push_back(loads ? b.destination(part, type, true) : b.source(part, type, true));
  }
  b.lists(slots);
  return !b.refused();
}

// Whether the access is to the arguments of a call, lane by lane, and not to the entry's.
bool in_call_memory(const Binder& b, const Operand& address) {
  if (!b.function().entry) return true;
  return address.base == Kind::variable && address.scope == ptx::Scope::function &&
         b.function().call_offset[address.index] >= 0;
}

void load_or_store(Binder& b, bool loads) {
  const Space space = take_space(b);
  const Order order = take_order(b, Order::weak);
  const MemoryScope scope = take_scope(b, MemoryScope::sys);
  take_cache_hints(b);
  b.take("mmio");
  const std::string_view vector = b.take_one_of({"v2", "v4", "v8"});
  const std::size_t count = vector.empty() ? 1 : static_cast<std::size_t>(vector[1] - '0');
  Type type = Type::b32;
  if (!b.take_type(type) || type == Type::pred)
    return b.refuse("has no type that this machine knows");
  const Operand& address = b.operand(loads ? 1 : 0);
  const BoundAddress bound = bind_address(b, address, space);
  int container = 0;
  if (b.refused() || !bind_values(b, b.operand(loads ? 0 : 1), type, count, loads, container))
    return;
  const std::int64_t bytes = ptx::bits_of(type) / 8 * static_cast<std::int64_t>(count);
  if (bytes > 32) return b.refuse("moves more than 32 bytes");
  b.op.a = bound.slot;
  b.op.value = bound.offset;
  b.op.extra =
      AccessBits::make(
          space, bound.wide,
          std::countr_zero(static_cast<unsigned>(std::min(ptx::bits_of(type), 64) / 8)),
          is_signed(type), std::countr_zero(static_cast<unsigned>(container) / 16), order, scope)
          .bits;
  if (space != Space::param) return b.use(loads ? "ld" : "st");
  const bool call = in_call_memory(b, address);
  if (!call && !loads) return b.refuse("writes to the kernel's parameters");
  const std::int64_t limit = call ? b.program().call_bytes : b.program().param_bytes;
  if (bound.constant && (bound.offset < 0 || bound.offset + bytes > limit))
    return b.refuse("reaches outside the parameters");
  b.use(call ? (loads ? "ld.param.call" : "st.param.call") : bound.constant ? "ld.param" : "ld");
}

void fence(Binder& b) {
  if (b.in.opcode == "membar") {
    const std::string_view level = b.take_one_of({"cta", "gl", "sys"});
    b.op.mode = static_cast<std::uint8_t>(level == "cta"  ? MemoryScope::cta
                                          : level == "gl" ? MemoryScope::gpu
                                                          : MemoryScope::sys);
    return b.use("fence");
  }
  if (b.take("proxy")) {
    const std::string_view proxy =
        b.take_one_of({"async", "async.global", "async::generic", "alias", "tensormap::generic"});
    b.take_one_of({"global", "shared::cta", "shared::cluster", "shared::{cta, cluster}"});
    if (take_order(b, Order::weak) != Order::weak) take_scope(b, MemoryScope::sys);
    b.take_one_of({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
    for (std::size_t i = 0; i < b.count(); ++i) (void)b.operand(i);
    return b.use(proxy.starts_with("async") ? "fence.proxy.async" : "nothing");
  }
  if (b.take("mbarrier_init")) {
    take_order(b, Order::release);
    b.take("cluster");
    b.op.mode = static_cast<std::uint8_t>(MemoryScope::cluster);
    return b.use("fence");
  }
  take_order(b, Order::acq_rel);
  b.take_one_of({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
  b.op.mode = static_cast<std::uint8_t>(take_scope(b, MemoryScope::sys));
  b.use("fence");
}

// A policy is opaque and advises caches, of which this machine has none: any value will do.
void create_policy(Binder& b) {
  constexpr std::uint64_t opaque = 0x14f0000000000000;
  if (!b.take("fractional") && !b.take("range") && !b.take("cvt"))
    return b.refuse("is not known in this form");
  take_cache_hints(b);
  b.take("global");
  b.take("L2");
  b.take("b64");
  for (std::size_t i = 1; i < b.count(); ++i) (void)b.operand(i);
  b.op.d = b.destination(0, Type::b64);
  b.op.a = b.rows().constant64(opaque);
  b.use("mov.64");
}

}  // namespace

bool decode_memory(Binder& b) {
  const std::string_view opcode = b.in.opcode;
  if (opcode == "st" && b.in.has("async")) return false;
  if (opcode == "ld" || opcode == "ldu" || opcode == "st") {
    load_or_store(b, opcode != "st");
  } else if (opcode == "prefetch" || opcode == "prefetchu" || opcode == "discard" ||
             opcode == "applypriority") {
    while (!b.take_next().empty()) {
    }
    b.use("nothing");
  } else if (opcode == "createpolicy") {
    create_policy(b);
  } else if (opcode == "membar" || opcode == "fence") {
    fence(b);
  } else {
    return false;
  }
  return true;
}

}  // namespace microscale::emulator
