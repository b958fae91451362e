// Asynchronous stores to the shared memory of a block of the cluster: as copies, but the bytes come
// from registers and by the generic proxy.
#include <bit>

#include <fmt/format.h>

#include "emulator/memory/cluster_memory.hpp"

namespace microscale::emulator {

void ClusterMemory::store_async(const Agent& agent, const WarpAccess& to,
                                const std::uint8_t* values, const std::uint64_t* mbarrier) {
  const auto bytes = static_cast<std::uint64_t>(to.bytes);
  std::uint32_t left = to.lanes;
  while (left != 0) {  // the lanes of one mbarrier are one copy
    const int first = std::countr_zero(left);
    AsyncCopy copy;
    for (std::uint32_t rest = left; rest; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      if (mbarrier[lane] != mbarrier[first]) continue;
      left &= ~(1u << lane);
      const std::uint64_t address = to.address[lane];
      Toucher reads = toucher(agent), writes = toucher(agent);
      Region region;
      if (!aligned(agent, lane, address, bytes, Mode::write) ||
          !resolve(agent, lane, address, bytes, Mode::write, region) ||
          !prepare_bulk(agent, lane, mbarrier[lane], bytes, copy, reads, writes))
        continue;
      if (region.kind != SpaceKind::shared) {
        reporter_.say(FindingKind::misuse, agent, lane, true, [&] {
          return fmt::format("lane {} stores to {:#x} by st.async, which is not shared memory",
                             lane, address);
        });
        continue;
      }
      writes.asynchronous = false;  // the generic proxy
      move_row(writes, lane, address, bytes, Mode::write, nullptr, nullptr);
      copy.pieces.push_back({region.data + (address - region.begin),
                             static_cast<std::uint32_t>(copy.data.size()),
                             static_cast<std::uint32_t>(bytes)});
      copy.data.insert(copy.data.end(), values + lane * bytes, values + (lane + 1) * bytes);
    }
    if (copy.pieces.empty()) continue;
    barrier_at(agent, first, mbarrier[first], "stores")->arriving.join(warp_of(agent).know);
    copy.to_shared = true;
    copy.transaction = copy.data.size();
    launch_copy(agent, std::move(copy));
  }
  // What the warp does from here on is not among what its bytes release.
  warp_of(agent).know.clock.tick(warp_of(agent).slot);
}

void ClusterMemory::launch_answer(const Agent& agent, int lane, std::uint64_t to,
                                  std::uint64_t mbarrier, const std::uint32_t (&answer)[4],
                                  bool last) {
  AsyncCopy copy;
  Toucher reads = toucher(agent), writes = toucher(agent);
  Region region;
  if (refused_time_ && warp_of(agent).know.clock[refused_slot_] >= refused_time_)
    reporter_.say(FindingKind::misuse, agent, lane, false, [&] {
      return fmt::format(
          "lane {} asks for another cluster behind an answer that there is none: undefined", lane);
    });
  if (!aligned(agent, lane, to, 16, Mode::write) ||
      !resolve(agent, lane, to, 16, Mode::write, region) ||
      !prepare_bulk(agent, lane, mbarrier, 16, copy, reads, writes))
    return;
  if (last) refused_slot_ = writes.slot, refused_time_ = writes.time;
  copy.to_shared = true;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(answer);
  copy.data.assign(bytes, bytes + 16);
  move_row(writes, lane, to, 16, Mode::write, nullptr, nullptr);
  copy.pieces.push_back({region.data + (to - region.begin), 0, 16});
  launch_copy(agent, std::move(copy));
}

}  // namespace microscale::emulator
