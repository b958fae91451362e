// Races, as barriers and warp syncs leave them.
#include "emulator/memory/touch.hpp"

#include <gtest/gtest.h>

#include "emulator/memory/small_machine.hpp"

namespace microscale::emulator {

TEST(Race, between_warps_is_named_with_both_accesses) {
  SmallMachine machine;
  auto memory = machine.cluster();
  store(*memory, {0, 0, 10, 0}, strided(shared_window, 4));
  load(*memory, {0, 1, 20, 0}, strided(shared_window, 4));
  ASSERT_EQ(machine.count(FindingKind::race), 1);
  EXPECT_EQ(machine.first(),
            "warp 1 lane 0 reads 4 bytes at 0x100000000000000, which lane 0 of warp 0 wrote at PTX "
            "line 10: no "
            "barrier stands between");
  EXPECT_EQ(machine.findings.list[0].thread[0], 32u);
}

TEST(Race, goes_away_with_a_barrier_of_both_warps_and_not_of_others) {
  for (const std::uint64_t warps : {0x3ull, 0xdull}) {
    SmallMachine machine;
    auto memory = machine.cluster();
    store(*memory, {0, 0, 10, 0}, strided(shared_window, 4));
    memory->on_barrier(0, warps);
    load(*memory, {0, 1, 20, 0}, strided(shared_window, 4));
    EXPECT_EQ(machine.count(FindingKind::race), warps == 3 ? 0 : 1);
  }
}

TEST(Race, is_seen_when_a_write_follows_reads_of_several_warps) {
  SmallMachine machine;
  auto memory = machine.cluster();
  store(*memory, {0, 0, 10, 0}, strided(shared_window, 4));
  memory->on_barrier(0, 0xf);
  for (std::uint32_t warp = 0; warp < 3; ++warp)
    load(*memory, {0, warp, 20, 0}, strided(shared_window, 4));
  memory->on_barrier(0, 0x5);  // warp 1 is not there
  store(*memory, {0, 0, 30, 0}, strided(shared_window, 4));
  ASSERT_EQ(machine.count(FindingKind::race), 1);
  EXPECT_NE(machine.first().find("of warp 1 read at PTX line 20"), std::string::npos)
      << machine.first();
}

TEST(Race, needs_a_write) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t a = machine.filled(128);
  for (std::uint32_t turn = 0; turn < 40; ++turn)
    load(*memory, {0, turn % 4, 20, 0}, strided(a, 4));
  EXPECT_EQ(machine.all(), 0u);
}

TEST(Race, of_neighbouring_bytes_is_none) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t a = machine.filled(4096);
  for (std::uint64_t base : {a, shared_window}) {
    store(*memory, {0, 0, 10, 0}, strided(base, 2), 1);
    store(*memory, {0, 1, 11, 0}, strided(base + 1, 2), 1);
    load(*memory, {0, 1, 12, 0}, strided(base + 1, 2), 1);
  }
  EXPECT_EQ(machine.all(), 0u) << machine.first();
  store(*memory, {0, 2, 13, 0}, strided(shared_window + 1, 2), 1, 1);
  EXPECT_EQ(machine.count(FindingKind::race), 2);  // with the write and with the read of warp 1
}

TEST(Race, between_lanes_of_a_warp_needs_a_warp_sync) {
  for (const bool synced : {false, true}) {
    SmallMachine machine;
    auto memory = machine.cluster();
    store(*memory, {0, 0, 10, 0}, strided(shared_window, 4));
    load(*memory, {0, 0, 11, 0}, strided(shared_window, 4));  // each its own: fine
    if (synced) memory->on_warp_sync({0, 0, 12, 0});
    load(*memory, {0, 0, 13, 0}, strided(shared_window + 124, -4));
    EXPECT_EQ(machine.count(FindingKind::race), synced ? 0 : 32);
    if (!synced) {
      EXPECT_NE(machine.first().find("no bar.warp.sync stands between"), std::string::npos);
    }
  }
}

TEST(Race, of_a_write_after_other_lanes_reads_is_seen) {
  SmallMachine machine;
  auto memory = machine.cluster();
  store(*memory, {0, 0, 10, 0}, strided(shared_window, 4));
  memory->on_barrier(0, 0xf);
  load(*memory, {0, 0, 11, 0}, strided(shared_window, 0));  // all read word 0
  store(*memory, {0, 0, 12, 0}, strided(shared_window, 4), 4, 1);
  EXPECT_EQ(machine.count(FindingKind::race), 1);
}

TEST(Race, in_one_store_needs_different_values) {
  SmallMachine machine;
  auto memory = machine.cluster();
  store(*memory, {0, 0, 10, 0}, strided(shared_window, 0), 4, all_lanes, 7, 0);
  EXPECT_EQ(machine.all(), 0u) << machine.first();
  store(*memory, {0, 0, 11, 0}, strided(shared_window + 64, 0), 4, all_lanes, 7, 1);
  EXPECT_GT(machine.count(FindingKind::race), 0);
}

TEST(Race, between_blocks_in_one_launch_is_seen_and_between_launches_is_none) {
  SmallMachine machine;
  auto a = machine.cluster(0), b = machine.cluster(1);
  const std::uint64_t data = machine.filled(128);
  store(*a, {0, 0, 10, 0}, strided(data, 4));
  load(*b, {1, 0, 11, 0}, strided(data, 4));
  ASSERT_EQ(machine.count(FindingKind::race), 1);
  EXPECT_NE(machine.first().find("of warp 0 of block 0 wrote at PTX line 10"), std::string::npos);
  LaunchMemory next(machine.global, machine.places, machine.findings);
  ClusterMemory c(next, {1, 1, 0, 0});
  c.begin(3);
  store(c, {3, 0, 12, 0}, strided(data, 4));
  EXPECT_EQ(machine.count(FindingKind::race), 1);
}

TEST(Race, is_not_looked_for_when_switched_off) {
  SmallMachine machine({.races = false});
  auto memory = machine.cluster();
  store(*memory, {0, 0, 10, 0}, strided(shared_window, 4));
  load(*memory, {0, 1, 20, 0}, strided(shared_window, 4));
  EXPECT_EQ(machine.all(), 0u);
}

}  // namespace microscale::emulator
