#include "emulator/ops/barrier.hpp"

#include <fmt/format.h>

#include "emulator/ops/address.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;

enum class What { sync, arrive, red_count, red_all, red_any };

/// op.a: the barrier, op.b: threads if mode bit 1, op.c: the predicate of red. mode bit 0:
/// .aligned.
template <What W>
Step barrier(const Op& op, Warp& warp, u32 lanes) {
  if (op.mode & 1)
    if (const Step step = warp.gather(op, warp.live(), lanes); step != Step::next) return step;
  const int first = std::countr_zero(lanes);
  const u32 number = warp.row32(op.a)[first];
  const u32 threads = (op.mode & 2) ? warp.row32(op.b)[first] : 0;
  if (number > 15 || threads % warp_lanes)
    return warp.report(
        op, FindingKind::misuse, first,
        fmt::format("names barrier {} for {} threads; there are 16, for multiples of 32", number,
                    threads),
        true);
  const auto id = static_cast<std::uint8_t>(number);
  const bool reduces = W != What::sync && W != What::arrive;
  if (W != What::arrive) warp.block_at(id, op, lanes);
  warp.block().arrive(warp, op, lanes,
                      {.barrier = id,
                       .threads = threads,
                       .waits = W != What::arrive,
                       .predicate = reduces ? warp.predicate(op, op.c, 1) : 0});
  return W == What::arrive ? Step::next : Step::jump;
}

/// op.mode bit 0: .aligned, bit 1: .relaxed.
Step cluster_arrive(const Op& op, Warp& warp, u32 lanes) {
  if (op.mode & 1)
    if (const Step step = warp.gather(op, warp.live(), lanes); step != Step::next) return step;
  warp.cluster_phase = warp.block().cluster_phase();
  warp.block().memory().on_cluster_arrive(warp.agent(op), op.mode & 2);
  warp.block().arrive_at_cluster(warp, lanes);
  return Step::next;
}

Step cluster_wait(const Op& op, Warp& warp, u32 lanes) {
  if (op.mode & 1)
    if (const Step step = warp.gather(op, warp.live(), lanes); step != Step::next) return step;
  if (warp.block().cluster_phase() == warp.cluster_phase)
    return warp.block_at(Block::cluster_barrier, op, lanes);
  warp.block().memory().on_cluster_wait(warp.block().rank(), warp.index());
  return Step::next;
}

}  // namespace

u32 warp_barrier_mask(const Warp& warp, const Op& op, u32 lanes) {
  return warp.row32(op.a)[std::countr_zero(lanes)];
}

void on_warp_barrier(Warp& warp, const Op& op) {
  warp.block().memory().on_warp_sync(warp.agent(op));
}

Step warp_barrier(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = warp.gather(op, warp_barrier_mask(warp, op, lanes), lanes);
      step != Step::next)
    return step;
  u32 outside = 0;
  const u32* mask = warp.row32(op.a);
  for (u32 left = lanes; left; left &= left - 1)
    outside |= left & (0u - left) & ~mask[std::countr_zero(left)];
  if (outside)
    warp.report(op, FindingKind::misuse, std::countr_zero(outside),
                fmt::format("{} executes with the mask 0x{:08x}, which leaves it out",
                            lane_list(outside), mask[std::countr_zero(outside)]));
  on_warp_barrier(warp, op);
  return Step::next;
}

void deliver_reduction(Warp& warp, const Op& op, u32 lanes, u32 count, bool all, bool any) {
  if (op.run == barrier<What::red_count>) {
    u32* d = warp.row32(op.d);
    for (u32 rest = lanes; rest; rest &= rest - 1) d[std::countr_zero(rest)] = count;
  } else if (op.run == barrier<What::red_all> || op.run == barrier<What::red_any>) {
    const bool holds = op.run == barrier<What::red_all> ? all : any;
    warp.set_predicate(op.d, lanes, holds ? ~0u : 0);
  }
}

Family barrier_family() {
  static constexpr HandlerEntry entries[] = {
      {"bar.sync", barrier<What::sync>},          {"bar.arrive", barrier<What::arrive>},
      {"bar.red.popc", barrier<What::red_count>}, {"bar.red.and", barrier<What::red_all>},
      {"bar.red.or", barrier<What::red_any>},     {"bar.warp", warp_barrier},
      {"barrier.cluster.arrive", cluster_arrive}, {"barrier.cluster.wait", cluster_wait},
  };
  return entries;
}

}  // namespace microscale::emulator
