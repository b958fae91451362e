// atom and red. op.mode: AtomicOp, op.count: AtomicType.
#include "emulator/ops/address.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

void collect(const Warp& warp, Slot slot, bool wide, LaneWords& words) {
  for (int i = 0; i < 32; ++i) {
    const u64 value = wide ? warp.row64(slot)[i] : warp.row32(slot)[i];
    words.word[0][static_cast<std::size_t>(i)] = static_cast<u32>(value);
    words.word[1][static_cast<std::size_t>(i)] = static_cast<u32>(value >> 32);
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
  collect(warp, op.b, bytes == 8, operand);
  if (operation == AtomicOp::cas) collect(warp, op.c, bytes == 8, compare);
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
  if (!returns) return Step::next;
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(rest));
    if (bytes == 8)
      warp.row64(op.d)[i] = u64{old.word[1][i]} << 32 | old.word[0][i];
    else
      warp.row32(op.d)[i] = old.word[0][i] & (bytes == 2 ? 0xffffu : ~0u);
  }
  return Step::next;
}

}  // namespace

Family atomic_family() {
  static constexpr HandlerEntry entries[] = {{"atom", atomic}};
  return entries;
}

}  // namespace microscale::emulator
