// Blocks that touch each other's shared memory: the other one must have begun, and must not end
// before. A thread that waited at barrier.cluster knows that it has begun, however its threads
// arrived there; that knowledge travels in the clocks with every other order.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "emulator/memory/cluster_memory.hpp"

namespace microscale::emulator {

/// Whether block `rank` is another one that has ended, or that `agent` cannot know to have begun.
bool ClusterMemory::absent(const Agent& agent, std::uint32_t rank) {
  return rank != agent.rank &&
         ((ended_ >> rank & 1) || warp_of(agent).know.clock[beginning_of(rank)] == 0);
}

/// Reports who touches an absent block; one that need not have begun is there all the same, and
/// reported once for a warp. False if the block has ended.
bool ClusterMemory::reach_block(const Agent& agent, int lane, std::uint64_t address,
                                std::uint64_t bytes, Mode mode) {
  const std::uint32_t rank = rank_of(address);
  if (rank >= shape_.blocks || !absent(agent, rank)) return true;
  const auto touches = [&] {
    return fmt::format("lane {} {} {} bytes at {:#x}, of block {} of the cluster", lane, verb(mode),
                       bytes, address, rank);
  };
  if (ended_ >> rank & 1) {
    reporter_.say(FindingKind::absent_block, agent, lane, true, [&] {
      return touches() +
             ", which has ended: it must wait, at barrier.cluster or for a message, until no other "
             "block "
             "touches its memory any more";
    });
    return false;
  }
  warp_of(agent).know.clock.set(beginning_of(rank), 1);
  if (launch_.options.races)
    reporter_.say(FindingKind::absent_block, agent, lane, false, [&] {
      return touches() +
             ", which need not have begun: no barrier.cluster.wait, and no message from there, "
             "stands before";
    });
  return true;
}

void ClusterMemory::on_block_end(std::uint32_t rank, std::uint32_t block) {
  ended_ |= 1u << rank;
  if (shape_.tensor_memory) report_leaks(rank);
  if (shape_.blocks == 1 || !launch_.options.races) return;
  Clock known;  // to some thread of the block, which ends behind it
  for (std::uint32_t i = 0; i < shape_.warps; ++i)
    known.join(warps_[std::size_t{rank} * shape_.warps + i].know.clock);
  std::unordered_set<std::uint32_t> looked_at = {0};
  std::uint32_t neighbour = 0;  // names the same record nearly always
  const auto look = [&](Cell cell) {
    if (std::exchange(neighbour, id_of(cell)) == id_of(cell)) return;
    const std::uint32_t lane = lane_of(cell) % several_lanes;
    for (std::uint32_t id = id_of(cell); looked_at.insert(id).second; id = log_[id].previous) {
      const Record& record = log_[id];
      if (record.block == block || record.time <= known[record.slot]) continue;
      const Agent agent{record.block, record.warp, record.instruction, 0};
      reporter_.say(FindingKind::absent_block, agent, static_cast<int>(lane), false, [&] {
        return fmt::format(
            "lane {} {} shared memory of block {} of the cluster, which may have ended: it must "
            "wait, at barrier.cluster or for a message, until no other block touches its memory "
            "any more",
            lane, record.write ? "writes" : "reads", rank);
      });
    }
  };
  const SharedBlock& memory = shared_[rank];
  for (std::uint64_t at = 0; at < memory.bytes.size(); at += ShadowPage::bytes) {
    const ShadowPage* page = memory.shadow->existing(at);
    if (!page || page->launch != tag_) continue;
    std::for_each(page->writer.begin(), page->writer.end(), look);
    std::for_each(page->reader.begin(), page->reader.end(), look);
  }
}

}  // namespace microscale::emulator
