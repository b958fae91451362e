#include "emulator/machine/block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/machine/cluster.hpp"

namespace microscale::emulator {

using ptx::SpecialRegister;

LaunchState& Block::launch() const { return cluster_.launch(); }
ClusterMemory& Block::memory() const { return cluster_.memory(); }
std::uint64_t* Block::counts() const { return cluster_.counts(); }

void Block::start(const std::uint32_t (&place)[3], std::uint8_t* registers) {
  const LaunchShape& shape = launch().shape;
  std::copy(place, place + 3, place_);
  linear_ = place[0] + shape.grid[0] * (place[1] + shape.grid[1] * place[2]);
  barriers_.fill({});
  const std::uint32_t threads = shape.threads();
  const std::uint32_t count = (threads + warp_lanes - 1) / warp_lanes;
  warps_.resize(count);
  const std::size_t bytes = Warp::memory_bytes(launch().program);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t lanes = std::min<std::uint32_t>(warp_lanes, threads - i * warp_lanes);
    warps_[i].start(launch().program, *this, i, lanes == warp_lanes ? ~0u : (1u << lanes) - 1,
                    registers + i * bytes);
  }
  warpgroups_.resize((count + Warpgroup::warps - 1) / Warpgroup::warps);
  for (std::uint32_t i = 0; i < warpgroups_.size(); ++i)
    warpgroups_[i].start(*this, i * Warpgroup::warps, launch().memory.options.seed + linear_);
}

std::uint32_t Block::live_threads() const {
  std::uint32_t count = 0;
  for (const Warp& warp : warps_) count += static_cast<std::uint32_t>(std::popcount(warp.live()));
  return count;
}

void Block::special(const SpecialRow& which, std::uint32_t warp, std::uint32_t* values) const {
  const LaunchShape& shape = launch().shape;
  const int axis = which.component;
  const auto all = [values](std::uint64_t value) {
    std::fill(values, values + warp_lanes, static_cast<std::uint32_t>(value));
  };
  const std::uint32_t shared = static_cast<std::uint32_t>(shape.dynamic_shared_bytes);
  for (int lane = 0; lane < warp_lanes; ++lane) {
    const std::uint32_t thread = warp * warp_lanes + static_cast<std::uint32_t>(lane);
    const std::uint32_t bit = 1u << lane;
    switch (which.special) {
      case SpecialRegister::tid:
        values[lane] = axis == 0   ? thread % shape.block[0]
                       : axis == 1 ? thread / shape.block[0] % shape.block[1]
                                   : thread / (shape.block[0] * shape.block[1]);
        break;
      case SpecialRegister::laneid:
        values[lane] = static_cast<std::uint32_t>(lane);
        break;
      case SpecialRegister::lanemask_eq:
        values[lane] = bit;
        break;
      case SpecialRegister::lanemask_lt:
        values[lane] = bit - 1;
        break;
      case SpecialRegister::lanemask_le:
        values[lane] = bit | (bit - 1);
        break;
      case SpecialRegister::lanemask_gt:
        values[lane] = ~(bit | (bit - 1));
        break;
      case SpecialRegister::lanemask_ge:
        values[lane] = ~(bit - 1);
        break;
      case SpecialRegister::ntid:
        all(shape.block[axis]);
        return;
      case SpecialRegister::ctaid:
        all(place_[axis]);
        return;
      case SpecialRegister::nctaid:
        all(shape.grid[axis]);
        return;
      case SpecialRegister::clusterid:
        all(place_[axis] / shape.cluster[axis]);
        return;
      case SpecialRegister::nclusterid:
        all(shape.grid[axis] / shape.cluster[axis]);
        return;
      case SpecialRegister::cluster_ctaid:
        all(place_[axis] % shape.cluster[axis]);
        return;
      case SpecialRegister::cluster_nctaid:
        all(shape.cluster[axis]);
        return;
      case SpecialRegister::cluster_ctarank:
        all(rank_);
        return;
      case SpecialRegister::cluster_nctarank:
        all(shape.cluster_blocks());
        return;
      case SpecialRegister::is_explicit_cluster:
        all(shape.explicit_cluster);
        return;
      case SpecialRegister::warpid:
        all(warp);
        return;
      case SpecialRegister::nwarpid:
        all(64);
        return;
      case SpecialRegister::smid:
        all(linear_ % 132);
        return;
      case SpecialRegister::nsmid:
        all(132);
        return;
      case SpecialRegister::gridid:
        all(launch().memory.number);
        return;
      case SpecialRegister::dynamic_smem_size:
        all(shared);
        return;
      case SpecialRegister::total_smem_size:
        all(shared + static_cast<std::uint32_t>(launch().program.shared_bytes));
        return;
      case SpecialRegister::aggr_smem_size:
        all(shared + static_cast<std::uint32_t>(launch().program.shared_bytes + reserved_bytes));
        return;
      case SpecialRegister::reserved_smem_offset_begin:
      case SpecialRegister::reserved_smem_offset_0:
        all(static_cast<std::uint32_t>(launch().reserved_from()));
        return;
      case SpecialRegister::reserved_smem_offset_1:  // what cooperative groups have of it
        all(static_cast<std::uint32_t>(launch().reserved_from() + reserved_bytes / 2));
        return;
      case SpecialRegister::reserved_smem_offset_end:
        all(static_cast<std::uint32_t>(launch().reserved_from() + reserved_bytes));
        return;
      case SpecialRegister::reserved_smem_offset_cap:
        all(reserved_bytes);
        return;
      case SpecialRegister::envreg1:
        all(static_cast<std::uint32_t>(launch().grid_workspace >> 32));
        return;
      case SpecialRegister::envreg2:
        all(static_cast<std::uint32_t>(launch().grid_workspace));
        return;
      case SpecialRegister::clock:
      case SpecialRegister::clock_hi:
      case SpecialRegister::clock64:
      case SpecialRegister::globaltimer:
      case SpecialRegister::globaltimer_lo:
      case SpecialRegister::globaltimer_hi:
        all(0);
        return;  // read by an instruction of their own
    }
  }
}

bool Block::complete(const Barrier& barrier) const {
  if (barrier.slots == 0) return false;
  return barrier.threads ? barrier.slots >= barrier.threads : barrier.lanes >= live_threads();
}

void Block::open(std::uint8_t number) {
  const Barrier done = std::exchange(barriers_[number], {});
  memory().on_barrier(rank_, done.waiting, done.arrived & ~done.waiting);
  for (Warp& warp : warps_)
    if (done.waiting >> warp.index() & 1)
      warp.open(number, done.count, done.count == done.lanes, done.count > 0);
}

void Block::arrive(Warp& warp, const Op& op, std::uint32_t lanes, const Arrival& arrival) {
  Barrier& barrier = barriers_[arrival.barrier];
  const auto count = static_cast<std::uint32_t>(std::popcount(lanes));
  if (barrier.slots == 0) {
    barrier.threads = arrival.threads;
  } else if (barrier.threads != arrival.threads) {
    warp.report(op, FindingKind::misuse, std::countr_zero(lanes),
                fmt::format("barrier {} is for {} threads here and for {} where others wait",
                            arrival.barrier, arrival.threads, barrier.threads));
  }
  barrier.slots += lanes == warp.live() ? warp_lanes : count;
  barrier.lanes += count;
  barrier.count += static_cast<std::uint32_t>(std::popcount(arrival.predicate & lanes));
  (arrival.waits ? barrier.waiting : barrier.arrived) |= std::uint64_t{1} << warp.index();
  if (complete(barrier)) open(arrival.barrier);
}

std::string Block::describe(std::uint8_t barrier) const {
  if (barrier == cluster_barrier) return "the cluster's barrier";
  const Barrier& its = barriers_[barrier];
  return fmt::format("barrier {}, where {} of {} threads have come", barrier,
                     its.threads ? its.slots : its.lanes,
                     its.threads ? its.threads : live_threads());
}

void Block::on_exit(Warp& warp) {
  warpgroup(warp).on_exit(warp);
  for (std::uint8_t i = 0; i < barriers_.size(); ++i)
    if (barriers_[i].threads == 0 && complete(barriers_[i])) open(i);
  if (live_threads() == 0) memory().on_block_end(rank_, linear_);
  cluster_.on_exit();
}

std::uint64_t Block::cluster_phase() const { return cluster_.barrier_phase(); }

void Block::arrive_at_cluster(Warp& warp, std::uint32_t lanes) {
  cluster_.arrive(warp, static_cast<std::uint32_t>(std::popcount(lanes)));
}

}  // namespace microscale::emulator
