// bra, brx.idx, call (of a name or a register), ret, exit, trap.
#include <fmt/format.h>

#include "emulator/ops/address.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;

Step bra(const Op& op, Warp& warp, u32 lanes) { return warp.branch(op.extra, lanes); }

Step brx(const Op& op, Warp& warp, u32 lanes) {
  const std::vector<u32>& table = warp.program().branch_tables[op.extra];
  u32 targets[32] = {};
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const u32 index = warp.row32(op.a)[i];
    if (index >= table.size())
      return warp.report(op, FindingKind::misuse, i,
                         fmt::format("brx.idx by {}, with {} targets", index, table.size()), true);
    targets[i] = table[index];
  }
  return warp.scatter(targets, lanes);
}

Step nanosleep(const Op&, Warp& warp, u32) { return warp.pass(); }
Step call(const Op& op, Warp& warp, u32 lanes) { return warp.call(op, op.extra, lanes); }

/// Lanes that call one function go together; the others stay for their turn.
Step call_indirect(const Op& op, Warp& warp, u32 lanes) {
  const std::uint64_t* address = warp.row64(op.a);
  const int first = std::countr_zero(lanes);
  u32 same = 0;
  for (u32 rest = lanes; rest; rest &= rest - 1)
    if (address[std::countr_zero(rest)] == address[first]) same |= rest & (0u - rest);
  const IndirectCall& known = warp.program().indirect_calls[op.extra];
  const auto site = known.find(address[first]);
  if (site == known.end())
    return warp.report(op, FindingKind::misuse, first,
                       fmt::format("calls {:#x}, which is no function of this module with such "
                                   "parameters and results",
                                   address[first]),
                       true);
  if (same != lanes) warp.stay_behind(lanes & ~same);
  return warp.call(op, site->second, same);
}

Step ret(const Op&, Warp& warp, u32 lanes) { return warp.leave(lanes); }
Step leave_kernel(const Op&, Warp& warp, u32 lanes) { return warp.exit(lanes); }

Step trap(const Op& op, Warp& warp, u32 lanes) {
  return warp.report(op, FindingKind::misuse, std::countr_zero(lanes),
                     "the kernel stopped itself (trap)", true);
}

}  // namespace

Family control_family() {
  static constexpr HandlerEntry entries[] = {
      {"bra", bra},
      {"brx", brx},
      {"call", call},
      {"ret", ret},
      {"exit", leave_kernel},
      {"trap", trap},
      {"nanosleep", nanosleep},
      {"call.indirect", call_indirect},
  };
  return entries;
}

}  // namespace microscale::emulator
