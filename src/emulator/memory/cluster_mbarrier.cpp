// mbarrier objects in shared memory. Their 8 bytes hold nothing of use to a program; the state
// stands beside them, by address.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "emulator/memory/cluster_memory.hpp"

namespace microscale::emulator {

std::uint64_t ClusterMemory::barrier_key(const Agent& agent, std::uint64_t address) const {
  if (address & cluster_flag) return address;
  return cluster_shared(agent.rank, address & 0xffff'ffff);
}

ClusterMemory::Barrier* ClusterMemory::barrier_at(const Agent& agent, int lane,
                                                  std::uint64_t address, const char* what) {
  Region region;
  if (!aligned(agent, lane, address, 8, Mode::update) ||
      !resolve(agent, lane, address, 8, Mode::update, region))
    return nullptr;
  const std::uint64_t key = barrier_key(agent, address);
  const auto found = std::find_if(barriers_.begin(), barriers_.end(), [&](const Barrier& each) {
    return each.key == key && each.live;
  });
  if (region.kind == SpaceKind::shared && found != barriers_.end()) {
    if (launch_.options.races && found->init_time > warp_of(agent).know.clock[found->init_slot])
      reporter_.say(FindingKind::race, agent, lane, false, [&] {
        return fmt::format(
            "lane {} {} at {:#x}, an mbarrier that warp {} initialised at {}: no barrier stands "
            "between",
            lane, what, address, found->init_warp, reporter_.name(found->init_instruction));
      });
    return &*found;
  }
  reporter_.say(FindingKind::misuse, agent, lane, true, [&] {
    return fmt::format("lane {} {} at {:#x}, where no mbarrier was initialised", lane, what,
                       address);
  });
  return nullptr;
}

void ClusterMemory::report_misuse(const Agent& agent, int lane, MbarrierError error,
                                  std::uint64_t address) {
  if (error == MbarrierError::none) return;
  reporter_.say(FindingKind::misuse, agent, lane, true, [&] {
    return fmt::format("lane {} uses the mbarrier at {:#x} wrongly: {}", lane, address,
                       sentence_of(error));
  });
}

void ClusterMemory::mbarrier_init(const Agent& agent, int lane, std::uint64_t address,
                                  std::uint32_t count) {
  if (!aligned(agent, lane, address, 8, Mode::write)) return;
  Region region;
  if (!resolve(agent, lane, address, 8, Mode::write, region)) return;
  if (region.kind != SpaceKind::shared) {
    barrier_at(agent, lane, address, "initialises an mbarrier outside shared memory");
    return;
  }
  const std::uint64_t key = barrier_key(agent, address);
  auto found = std::find_if(barriers_.begin(), barriers_.end(),
                            [&](const Barrier& each) { return each.key == key; });
  if (found != barriers_.end() && found->live) {
    reporter_.say(FindingKind::misuse, agent, lane, false, [&] {
      return fmt::format(
          "lane {} initialises the mbarrier at {:#x}, which is in use: mbarrier.inval is missing",
          lane, address);
    });
  }
  if (found == barriers_.end()) found = barriers_.insert(barriers_.end(), Barrier{});
  *found = Barrier{};
  found->key = key;
  found->slot = beginning_of(shape_.blocks) + barrier_slots_++;
  const WarpMemory& warp = warp_of(agent);
  found->init_slot = warp.slot, found->init_time = warp.know.clock[warp.slot];
  found->init_warp = agent.warp, found->init_instruction = agent.instruction;
  const MbarrierError error = found->state.init(count);
  found->live = error == MbarrierError::none;
  report_misuse(agent, lane, error, address);
  // Its bytes are opaque. barrier_at finds uses that no barrier separates from this; here the write
  // is noted for accesses of other kinds.
  const std::uint64_t opaque = 0x6d62'6172'0000'0000u | count;
  std::uint8_t bytes[8];
  std::memcpy(bytes, &opaque, 8);
  move_row(toucher(agent, Order::relaxed), lane, address, 8, Mode::write, nullptr, bytes);
}

void ClusterMemory::mbarrier_invalidate(const Agent& agent, int lane, std::uint64_t address) {
  if (Barrier* barrier = barrier_at(agent, lane, address, "invalidates an mbarrier"))
    barrier->live = false;
}

/// After a change of state: when the phase went on, who waits for it learns what its arrivals knew.
void ClusterMemory::completed_phases(Barrier& barrier, std::uint64_t before) {
  if (barrier.state.phase() == before) return;
  barrier.arriving.clock.set(barrier.slot, static_cast<std::uint32_t>(barrier.state.phase()));
  barrier.completed = barrier.arriving;
}

std::uint64_t ClusterMemory::mbarrier_arrive(const Agent& agent, int lane, std::uint64_t address,
                                             std::uint32_t count, std::uint64_t transaction_bytes) {
  Barrier* barrier = barrier_at(agent, lane, address, "arrives");
  if (!barrier) return 0;
  move_row(toucher(agent, Order::relaxed), lane, address, 8, Mode::update, nullptr, nullptr);
  WarpMemory& warp = warp_of(agent);
  const std::uint64_t phase = barrier->state.phase();
  if (transaction_bytes)
    report_misuse(agent, lane, barrier->state.expect(transaction_bytes), address);
  if (count) {
    barrier->arriving.join(warp.know);
    report_misuse(agent, lane, barrier->state.arrive(count), address);
    completed_phases(*barrier, phase);
    warp.know.clock.tick(warp.slot);
  }
  return phase;
}

void ClusterMemory::mbarrier_complete(const Agent& agent, int lane, std::uint64_t address,
                                      std::uint64_t bytes) {
  Barrier* barrier = barrier_at(agent, lane, address, "completes transactions");
  if (!barrier) return;
  const std::uint64_t phase = barrier->state.phase();
  report_misuse(agent, lane, barrier->state.complete(bytes), address);
  completed_phases(*barrier, phase);
}

bool ClusterMemory::observe(const Agent& agent, int lane, Barrier& barrier, bool complete) {
  move_row(toucher(agent, Order::relaxed), lane, barrier.key, 8, Mode::read, nullptr, nullptr);
  if (!complete) return false;
  WarpMemory& warp = warp_of(agent);
  warp.know.join(barrier.completed);
  ++warp.epoch;
  return true;
}

bool ClusterMemory::mbarrier_test(const Agent& agent, int lane, std::uint64_t address,
                                  std::uint64_t state) {
  Barrier* barrier = barrier_at(agent, lane, address, "waits");
  if (!barrier) return true;  // the launch ends; no lane should wait for that
  if (state > barrier->state.phase() || state + 1 < barrier->state.phase())
    report_misuse(agent, lane, MbarrierError::stale_state, address);
  const std::uint64_t key = barrier->key;
  if (!barrier->state.test(state)) land_for(key);
  return observe(agent, lane, *barrier, barrier->state.test(state));
}

bool ClusterMemory::mbarrier_test_parity(const Agent& agent, int lane, std::uint64_t address,
                                         std::uint32_t parity) {
  Barrier* barrier = barrier_at(agent, lane, address, "waits");
  if (!barrier) return true;
  const std::uint64_t key = barrier->key;
  if (!barrier->state.test_parity(parity)) land_for(key);
  return observe(agent, lane, *barrier, barrier->state.test_parity(parity));
}

std::string ClusterMemory::describe_mbarrier(const Agent& agent, std::uint64_t address) const {
  const std::uint64_t key = barrier_key(agent, address);
  for (const Barrier& each : barriers_)
    if (each.key == key && each.live)
      return fmt::format("the mbarrier at {:#x}: {} arrivals and {} bytes to come", address,
                         each.state.pending(), each.state.transaction_bytes());
  return fmt::format("an mbarrier at {:#x} that is none", address);
}

}  // namespace microscale::emulator
