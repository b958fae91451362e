// atom and red. op.mode: AtomicOp, op.count: AtomicType.
#include <fmt/format.h>

#include "emulator/ops/address.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

void collect(const Warp& warp, Slot slot, int bytes, LaneWords& words) {
  for (int i = 0; i < 32; ++i) {
    const u64 value = bytes >= 8 ? warp.row64(slot)[i] : warp.row32(slot)[i];
    const auto column = static_cast<std::size_t>(i);
    words.word[0][column] = static_cast<u32>(value);
    words.word[1][column] = static_cast<u32>(value >> 32);
    if (bytes < 16) continue;
    const u64 high = warp.row64(slot + row_bytes_64)[i];
    words.word[2][column] = static_cast<u32>(high);
    words.word[3][column] = static_cast<u32>(high >> 32);
  }
}

void deliver(const Warp& warp, Slot slot, int bytes, u32 lanes, const LaneWords& old) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(rest));
    if (bytes >= 8)
      warp.row64(slot)[i] = u64{old.word[1][i]} << 32 | old.word[0][i];
    else
      warp.row32(slot)[i] = old.word[0][i] & (bytes == 2 ? 0xffffu : ~0u);
    if (bytes == 16)
      warp.row64(slot + row_bytes_64)[i] = u64{old.word[3][i]} << 32 | old.word[2][i];
  }
}

Step atomic(const Op& op, Warp& warp, u32 lanes) {
  const AccessBits access{op.extra};
  const auto operation = static_cast<AtomicOp>(op.mode);
  const auto type = static_cast<AtomicType>(op.count);
  const int bytes = bytes_of(type);
  alignas(64) u64 address[32];
  generic_addresses(warp, op.a, access.wide_address(), access.space(), op.value, address);
  LaneWords operand, compare, old;
  collect(warp, op.b, bytes, operand);
  if (operation == AtomicOp::cas) collect(warp, op.c, bytes, compare);
  const bool returns = access.rest() & 1;
  warp.block().memory().atomic(warp.agent(op),
                               {.lanes = lanes,
                                .bytes = bytes,
                                .address = address,
                                .order = access.order(),
                                .scope = access.scope()},
                               operation, type, operand,
                               operation == AtomicOp::cas ? &compare : nullptr,
                               returns ? &old : nullptr);
  if (returns) deliver(warp, op.d, bytes, lanes, old);
  return Step::next;
}

/// op.d: AtomicType; op.list: the rows of the results, if any, then of the operands.
Step vector(const Op& op, Warp& warp, u32 lanes) {
  const AccessBits access{op.extra};
  const auto type = static_cast<AtomicType>(op.d);
  const bool returns = access.rest() & 1;
  const int bytes = bytes_of(type), count = returns ? op.count / 2 : op.count;
  alignas(64) u64 address[32];
  generic_addresses(warp, op.a, access.wide_address(), access.space(), op.value, address);
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (address[lane] % static_cast<u64>(bytes * count) != 0)
      return warp.report(op, FindingKind::misaligned, lane,
                         fmt::format("an atomic of {} bytes at {:#x}, which is no multiple of {}",
                                     bytes * count, address[lane], bytes * count),
                         true);
  }
  LaneWords operand, old[8];  // delivered last: operands may stand in the same registers
  for (int i = 0; i < count; ++i) {
    collect(warp, op.list[returns ? count + i : i], bytes, operand);
    warp.block().memory().atomic(warp.agent(op),
                                 {.lanes = lanes,
                                  .bytes = bytes,
                                  .address = address,
                                  .order = access.order(),
                                  .scope = access.scope()},
                                 static_cast<AtomicOp>(op.mode), type, operand, nullptr,
                                 returns ? &old[i] : nullptr);
    for (u64& each : address) each += static_cast<u64>(bytes);
  }
  for (int i = 0; returns && i < count; ++i) deliver(warp, op.list[i], bytes, lanes, old[i]);
  return Step::next;
}

}  // namespace

Family atomic_family() {
  static constexpr HandlerEntry entries[] = {{"atom", atomic}, {"atom.vector", vector}};
  return entries;
}

}  // namespace microscale::emulator
