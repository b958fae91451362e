// cp.async: op.a to (op.value), op.b from (op.list[0..1]), op.mode bytes; op.extra: bit 0 wide to,
// bit 1 wide from, bit 2 a predicate op.c that ignores the source, bit 3 a row op.list[2] of source
// bytes.
#include "emulator/ops/address.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

Step copy(const Op& op, Warp& warp, u32 lanes) {
  alignas(64) u64 to[32], from[32];
  u32 bytes[32];
  generic_addresses(warp, op.a, op.extra & 1, ptx::Space::shared, op.value, to);
  const u64 offset = u64{op.list[1]} << 32 | op.list[0];
  generic_addresses(warp, op.b, op.extra & 2, ptx::Space::global, static_cast<std::int64_t>(offset),
                    from);
  const u32 ignored = (op.extra & 4) ? warp.predicate(op, op.c, 1) : 0;
  for (int i = 0; i < 32; ++i) {
    const u32 wanted = (op.extra & 8) ? warp.row32(op.list[2])[i] : op.mode;
    bytes[i] = (ignored & lane_bit[i]) ? 0 : wanted < op.mode ? wanted : op.mode;
  }
  warp.block().memory().cp_async(warp.agent(op), {.lanes = lanes, .bytes = op.mode, .address = to},
                                 from, (op.extra & 12) ? bytes : nullptr);
  return Step::next;
}

Step commit(const Op& op, Warp& warp, u32) {
  warp.block().memory().commit(warp.agent(op), static_cast<AsyncKind>(op.mode));
  return Step::next;
}

/// op.value groups may be on their way; op.extra: 1 commit first, 2 only sources matter.
Step wait(const Op& op, Warp& warp, u32) {
  ClusterMemory& memory = warp.block().memory();
  const auto kind = static_cast<AsyncKind>(op.mode);
  if (op.extra & 1) memory.commit(warp.agent(op), kind);
  memory.wait(warp.agent(op), kind, static_cast<u32>(op.value), op.extra & 2);
  return Step::next;
}

}  // namespace

Family async_family() {
  static constexpr HandlerEntry entries[] = {
      {"cp.async", copy}, {"async.commit", commit}, {"async.wait", wait}};
  return entries;
}

}  // namespace microscale::emulator
