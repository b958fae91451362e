#include "emulator/memory/counters.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>
#include <utility>
#include <vector>

namespace microscale::emulator {

namespace {

/// The distinct units of `size` bytes that lanes first..end touch, sorted.
std::vector<std::uint64_t> units_of(const WarpAccess& access, std::uint64_t size, int first,
                                    int end) {
  std::vector<std::uint64_t> units;
  for (int lane = first; lane < end; ++lane) {
    if (!(access.lanes >> lane & 1)) continue;
    const std::uint64_t begin = access.address[lane],
                        last = begin + static_cast<std::uint64_t>(access.bytes) - 1;
    for (std::uint64_t unit = begin / size; unit <= last / size; ++unit) units.push_back(unit);
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

int lanes_of_phase(int bytes) { return bytes <= 4 ? 32 : bytes == 8 ? 16 : bytes == 16 ? 8 : 4; }

AccessSample sample_of(const Agent& agent, const WarpAccess& access, bool shared) {
  AccessSample sample{.block = agent.block,
                      .warp = agent.warp,
                      .lanes = access.lanes,
                      .bytes = access.bytes,
                      .shared = shared,
                      .address = {}};
  for (int lane = 0; lane < warp_lanes; ++lane)
    if (access.lanes >> lane & 1)
      sample.address[lane] = shared ? access.address[lane] & 0xffff'ffff : access.address[lane];
  return sample;
}

}  // namespace

int sectors_of(const WarpAccess& access) {
  return static_cast<int>(units_of(access, 32, 0, warp_lanes).size());
}

int ideal_sectors_of(const WarpAccess& access) {
  return static_cast<int>((units_of(access, 1, 0, warp_lanes).size() + 31) / 32);
}

int bank_conflicts_of(const WarpAccess& access) {
  int conflicts = 0;
  const int lanes = lanes_of_phase(access.bytes);
  for (int first = 0; first < warp_lanes; first += lanes) {
    std::array<int, 32> words{};
    int worst = 0;
    for (std::uint64_t word : units_of(access, 4, first, first + lanes))
      worst = std::max(worst, ++words[word % 32]);
    conflicts += std::max(worst - 1, 0);
  }
  return conflicts;
}

void Counters::watch(std::uint32_t block, std::uint32_t warp) {
  const std::lock_guard guard(mutex_);
  watching_ = true;
  block_ = block;
  warp_ = warp;
}

AccessSample Counters::take_watched() {
  const std::lock_guard guard(mutex_);
  return std::exchange(watched_, {});
}

void Counters::add(const Agent& agent, const WarpAccess& access, bool shared) {
  const int sectors = shared ? 0 : sectors_of(access),
            ideal = shared ? 0 : ideal_sectors_of(access);
  const int conflicts = shared ? bank_conflicts_of(access) : 0;
  int phases = 0;
  if (shared)
    for (int first = 0, lanes = lanes_of_phase(access.bytes); first < warp_lanes; first += lanes)
      phases += (access.lanes >> first & (lanes == 32 ? all_lanes : (1u << lanes) - 1)) != 0;
  const auto active = static_cast<std::uint64_t>(std::popcount(access.lanes));
  const std::lock_guard guard(mutex_);
  AccessCount& count = counts_[agent.instruction];
  ++count.requests;
  count.lanes += active;
  count.bytes += active * static_cast<std::uint64_t>(access.bytes);
  count.sectors += static_cast<std::uint64_t>(sectors);
  count.ideal_sectors += static_cast<std::uint64_t>(ideal);
  count.phases += static_cast<std::uint64_t>(phases);
  count.conflicts += static_cast<std::uint64_t>(conflicts);
  ++(shared ? count.shared_requests : count.global_requests);
  const AccessSample& kept = count.sample;
  if (kept.lanes == 0 || std::tie(agent.block, agent.warp) < std::tie(kept.block, kept.warp))
    count.sample = sample_of(agent, access, shared);
  if (watching_ && agent.block == block_ && agent.warp == warp_)
    watched_ = sample_of(agent, access, shared);
}

std::map<std::uint32_t, AccessCount> Counters::all() const {
  const std::lock_guard guard(mutex_);
  return counts_;
}

}  // namespace microscale::emulator
