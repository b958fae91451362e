// bra, brx.idx, call, ret, exit, trap.
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
Step call(const Op& op, Warp& warp, u32 lanes) { return warp.call(op.extra, lanes); }
Step ret(const Op&, Warp& warp, u32 lanes) { return warp.leave(lanes); }
Step leave_kernel(const Op&, Warp& warp, u32 lanes) { return warp.exit(lanes); }

Step trap(const Op& op, Warp& warp, u32 lanes) {
  return warp.report(op, FindingKind::misuse, std::countr_zero(lanes),
                     "the kernel stopped itself (trap)", true);
}

}  // namespace

Family control_family() {
  static constexpr HandlerEntry entries[] = {
      {"bra", bra},           {"brx", brx},   {"call", call},           {"ret", ret},
      {"exit", leave_kernel}, {"trap", trap}, {"nanosleep", nanosleep},
  };
  return entries;
}

}  // namespace microscale::emulator
