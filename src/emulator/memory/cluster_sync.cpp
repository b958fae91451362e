// The edges between agents: barriers, warp syncs, fences, strong accesses.
#include <bit>
#include <utility>

#include "emulator/memory/cluster_memory.hpp"

namespace microscale::emulator {

namespace {

/// A strong read counts from here on: what was published where it looked is ordered before.
void promote(Knowledge& know, std::uint32_t domain, const SyncVariables& variables) {
  if (know.seen.empty()) return;
  for (const Acquired& each : know.seen) variables.join_own(each, domain, know.clock);
  join(know.acquired, know.seen);
  know.seen.clear();
}

}  // namespace

void ClusterMemory::on_barrier(std::uint32_t rank, std::uint64_t waited, std::uint64_t arrived) {
  Knowledge all;
  WarpMemory* block = warps_.data() + std::size_t{rank} * shape_.warps;
  for (std::uint64_t left = waited | arrived; left; left &= left - 1)
    all.join(block[std::countr_zero(left)].know);
  promote(all, domain_, launch_.variables);
  for (std::uint64_t left = waited; left; left &= left - 1) {
    WarpMemory& warp = block[std::countr_zero(left)];
    warp.know = all;
    warp.know.clock.tick(warp.slot);
    ++warp.epoch;
  }
  for (std::uint64_t left = arrived & ~waited; left; left &= left - 1) {
    WarpMemory& warp = block[std::countr_zero(left)];
    warp.know.clock.tick(warp.slot);
    ++warp.epoch;
  }
}

void ClusterMemory::on_cluster_arrive(const Agent& agent, bool relaxed) {
  WarpMemory& warp = warp_of(agent);
  if (relaxed) {
    Knowledge fenced = warp.know;
    fenced.clock = fenced.near_fenced, fenced.acquired = fenced.fenced_acquired;
    fenced.seen.clear();
    arriving_.join(fenced);
  } else {
    arriving_.join(warp.know);
  }
  warp.know.clock.tick(warp.slot);
}

void ClusterMemory::on_cluster_open() {
  for (std::uint32_t rank = 0; rank < shape_.blocks; ++rank)
    arriving_.clock.set(beginning_of(rank), 1);
  met_ = std::exchange(arriving_, {});
}

void ClusterMemory::on_cluster_wait(std::uint32_t rank, std::uint32_t warp_number) {
  WarpMemory& warp = warps_[std::size_t{rank} * shape_.warps + warp_number];
  warp.know.join(met_);
  promote(warp.know, domain_, launch_.variables);
  ++warp.epoch;
}

void ClusterMemory::on_warp_sync(const Agent& agent) { ++warp_of(agent).epoch; }

void ClusterMemory::on_fence(const Agent& agent, MemoryScope scope) {
  WarpMemory& warp = warp_of(agent);
  promote(warp.know, domain_, launch_.variables);
  warp.know.near_fenced = warp.know.clock;
  if (scope == MemoryScope::gpu || scope == MemoryScope::sys) {
    warp.know.fenced = warp.know.clock;
    warp.know.fenced_acquired = warp.know.acquired;
  }
  warp.know.clock.tick(warp.slot);
}

void ClusterMemory::on_proxy_fence(const Agent& agent) {
  WarpMemory& warp = warp_of(agent);
  warp.know.proxy.join(warp.know.clock);
  warp.know.clock.tick(warp.slot);
}

std::uint64_t ClusterMemory::variable_of(const Agent& agent, std::uint64_t address) const {
  if ((address & window_mask) != shared_window) return address;
  const bool named = (address & cluster_flag) != 0;
  const std::uint64_t rank = named ? address >> 32 & 0xffff : agent.rank;
  return shared_window | (std::uint64_t{domain_} * shape_.blocks + rank) << 20 |
         (address & 0xf'ffff);
}

void ClusterMemory::before_strong(const Agent& agent, const WarpAccess& access) {
  Knowledge& know = warp_of(agent).know;
  const bool releases = access.order == Order::release || access.order == Order::acq_rel;
  if (!releases && know.near_fenced.empty()) return;
  const bool wide = access.scope == MemoryScope::gpu || access.scope == MemoryScope::sys;
  const Clock nothing;
  for (std::uint32_t left = access.lanes; left; left &= left - 1) {
    const std::uint64_t variable = variable_of(agent, access.address[std::countr_zero(left)]);
    if (releases)
      launch_.variables.publish(variable, domain_, wide ? know.clock : nothing, know.clock,
                                wide ? know.acquired : AcquiredList{});
    else
      launch_.variables.publish(variable, domain_, wide ? know.fenced : nothing, know.near_fenced,
                                wide ? know.fenced_acquired : AcquiredList{});
  }
  if (releases) know.clock.tick(warp_of(agent).slot);
}

void ClusterMemory::after_strong(const Agent& agent, const WarpAccess& access) {
  if (!launch_.variables.any()) return;
  WarpMemory& warp = warp_of(agent);
  for (std::uint32_t left = access.lanes; left; left &= left - 1)
    if (const auto found =
            launch_.variables.look(variable_of(agent, access.address[std::countr_zero(left)])))
      join(warp.know.seen, {*found});
  if (access.order == Order::acquire || access.order == Order::acq_rel) {
    promote(warp.know, domain_, launch_.variables);
    ++warp.epoch;
  }
}

}  // namespace microscale::emulator
