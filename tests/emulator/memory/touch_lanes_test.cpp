// Lanes at once against each run of lanes by itself: the same bytes and the same findings.
#include "emulator/memory/touch_lanes.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "emulator/memory/small_machine.hpp"

namespace microscale::emulator {
namespace {

/// Two machines that see the same accesses.
struct Twins {
  Twins() : quick({.races = true}), slow({.races = true, .together = false}) {
    for (SmallMachine* each : {&quick, &slow}) {
      clusters.push_back(each->cluster(0, {1, 4, 16384, 256}));
      clusters.push_back(each->cluster(1, {1, 4, 16384, 256}));
      data.push_back(each->filled(3 * 4096 + 640));
      fresh.push_back(each->global.allocate(8192));
      std::memset(each->global.find(fresh.back())->at(fresh.back()), 0xaa,
                  8192);  // as nobody knows
    }
  }
  SmallMachine quick, slow;
  std::vector<std::unique_ptr<ClusterMemory>> clusters;  // quick 0, 1, slow 0, 1
  std::vector<std::uint64_t> data, fresh;
};

/// What a finding says, but for the address, which is the twins' own.
std::string said(const Finding& finding) {
  std::string text = finding.message;
  const std::size_t at = text.find(" at 0x");
  if (at != std::string::npos) text.replace(at, text.find_first_of(",: ", at + 4) - at, "");
  return std::to_string(static_cast<int>(finding.kind)) + " line " +
         std::to_string(finding.ptx_line) + " thread " + std::to_string(finding.thread[0]) + ": " +
         text;
}

/// `seen`: how many were compared before.
void expect_same_findings(const Twins& twins, std::size_t& seen) {
  const auto &quick = twins.quick.findings.list, &slow = twins.slow.findings.list;
  ASSERT_EQ(quick.size(), slow.size());
  for (; seen < quick.size(); ++seen) ASSERT_EQ(said(quick[seen]), said(slow[seen])) << seen;
}

TEST(TouchLanes, finds_what_runs_of_lanes_find_in_random_accesses) {
  for (std::uint32_t seed = 0; seed < 90; ++seed) {
    SCOPED_TRACE(seed);
    Twins twins;
    std::size_t seen = 0;
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t most) {
      return static_cast<std::uint32_t>(random()) % most;
    };
    // Few of the seeds are wild; the rest keep to their own parts, where most accesses are in
    // order.
    const bool wild = seed % 3 == 0;
    for (std::uint32_t turn = 0; turn < 400; ++turn) {
      const std::uint32_t cluster = below(8) == 0, warp = below(4);
      const Agent agent{cluster, warp, 10 + below(6), 0};
      if (const std::uint32_t what = below(12); what < 5) {
        for (const std::size_t twin : {0u, 1u}) {
          ClusterMemory& memory = *twins.clusters[2 * twin + cluster];
          if (what == 0) memory.on_barrier(0, 0xf);
          if (what == 1) memory.on_warp_sync(agent);
          if (what == 2) memory.on_barrier(0, 0x3);
          if (what == 3) memory.commit(agent, AsyncKind::cp_async);
          if (what == 4) memory.wait(agent, AsyncKind::cp_async, 0);
        }
        continue;
      }
      const int bytes = 1 << below(6);
      const std::uint32_t place = below(4);
      std::uint64_t begin = below(64) * 32u + (wild ? 0 : (cluster * 4 + warp) % 2 * 2048u);
      const std::uint64_t steps[] = {0, 1, 1, 1, 2, 3, 5, 33};
      const std::uint64_t step = steps[below(8)] * static_cast<std::uint64_t>(bytes);
      const std::uint32_t mix = below(4);
      const std::uint32_t lanes = below(3) ? all_lanes : static_cast<std::uint32_t>(random());
      const bool writes = place != 0 && below(2);
      Addresses offsets;
      for (std::uint64_t i = 0; i < 32; ++i) {
        const std::uint64_t lane = mix == 0 ? i ^ 5 : mix == 1 ? i / 2 : i;
        offsets[i] = (begin + lane * step) % 12032;  // at most a red zone beyond the end
      }
      if (wild && below(40) == 0) offsets[below(32)] += below(2) ? 1 : 128;
      const std::uint32_t step_of_values = below(3);
      const bool strong = below(20) == 0;
      const bool asynchronous = place == 2 && bytes >= 4 && bytes <= 16 && below(4) == 0;
      std::uint32_t given[32];
      for (std::uint32_t& each : given) each = below(3) * static_cast<std::uint32_t>(bytes) / 2;
      const bool partly = below(2);
      LaneWords read[2] = {};
      for (const std::size_t twin : {0u, 1u}) {
        const std::uint64_t base = place == 0   ? twins.data[twin]
                                   : place == 1 ? twins.fresh[twin]
                                   : place == 2 ? shared_window
                                                : local_window;
        Addresses at;
        for (std::size_t i = 0; i < 32; ++i)
          at[i] = base + (place == 3 ? offsets[i] % 256 : offsets[i]);
        ClusterMemory& memory = *twins.clusters[2 * twin + cluster];
        const Order order = strong ? Order::relaxed : Order::weak;
        if (asynchronous) {
          const Addresses from = strided(twins.data[twin] + begin, bytes);
          memory.cp_async(agent, {lanes, bytes, at.data()}, from.data(), partly ? given : nullptr);
        } else if (writes)
          store(memory, agent, at, bytes, lanes, turn, step_of_values, order);
        else
          read[twin] = load(memory, agent, at, bytes, lanes, order);
      }
      for (std::size_t word = 0; word < 8; ++word)
        ASSERT_EQ(read[0].word[word], read[1].word[word]);
      expect_same_findings(twins, seen);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(TouchLanes, sees_a_race_of_one_lane_among_32_scattered_ones) {
  SmallMachine machine;
  auto memory = machine.cluster();
  store(*memory, {0, 0, 10, 0}, strided(shared_window, 64));
  memory->on_barrier(0, 0xf);
  store(*memory, {0, 1, 11, 0}, strided(shared_window + 17 * 64, 0), 4, 1);
  load(*memory, {0, 0, 12, 0}, strided(shared_window, 64));
  ASSERT_EQ(machine.count(FindingKind::race), 1);
  EXPECT_NE(machine.first().find("warp 0 lane 17 reads"), std::string::npos) << machine.first();
}

TEST(TouchLanes, remembers_lanes_that_read_one_place_together) {
  SmallMachine machine;
  auto memory = machine.cluster();
  store(*memory, {0, 0, 10, 0}, strided(shared_window, 4));
  memory->on_barrier(0, 0xf);
  Addresses pairs = strided(shared_window, 4);
  for (std::size_t i = 0; i < 32; ++i) pairs[i] = shared_window + i / 2 * 8;
  load(*memory, {0, 0, 11, 0}, pairs, 8);
  Addresses one = strided(shared_window, 8);
  store(*memory, {0, 0, 12, 0}, one, 8, 1);  // lane 0, what lanes 0 and 1 have read
  EXPECT_EQ(machine.count(FindingKind::race), 1);
}

TEST(TouchLanes, knows_an_order_only_until_the_next_cluster) {
  SmallMachine machine;
  auto memory = machine.cluster();
  for (std::uint32_t turn = 0; turn < 2; ++turn) {
    store(*memory, {0, 1, 10, 0}, strided(shared_window, 4));
    if (turn == 0) memory->on_barrier(0, 0xf);
    load(*memory, {0, 0, 12, 0}, strided(shared_window, 4));
    EXPECT_EQ(machine.count(FindingKind::race), static_cast<int>(turn));
    memory->begin(turn + 1);
  }
}

}  // namespace
}  // namespace microscale::emulator
