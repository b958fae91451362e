#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "emulator/memory/runs.hpp"
#include "emulator/memory/small_machine.hpp"

namespace microscale::emulator {
namespace {

constexpr Agent first{0, 0, 10, 0};

TEST(ClusterAccess, moves_every_width_in_every_window) {
  for (int bytes : {1, 2, 4, 8, 16, 32}) {
    SmallMachine machine;
    auto memory = machine.cluster();
    const std::uint64_t a = machine.global.allocate(4096);
    for (std::uint64_t base : {a, shared_window, local_window}) {
      Addresses at = strided(base, base == local_window ? 0 : bytes);
      store(*memory, first, at, bytes, all_lanes, 0x01020300);
      const LaneWords words = load(*memory, first, at, bytes);
      const std::uint32_t mask = bytes == 1 ? 0xff : bytes == 2 ? 0xffff : 0xffffffff;
      for (std::size_t word = 0; word < std::size_t(bytes + 3) / 4; ++word)
        for (std::uint32_t lane = 0; lane < 32; ++lane)
          ASSERT_EQ(words.word[word][lane], (0x01020300 + lane) & mask) << bytes << " " << base;
    }
    EXPECT_EQ(machine.all(), 0u);
  }
}

TEST(ClusterAccess, moves_strided_reversed_and_partial_warps) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t a = machine.filled(1 << 16, 0);
  for (const Addresses& at : {strided(a, 100 * 4), strided(a + 31 * 4, -4), strided(a + 4000, 4)}) {
    store(*memory, first, at, 4, 0x00ff0ff1, 500);
    const LaneWords words = load(*memory, first, at, 4, 0x00ff0ff1);
    for (std::uint32_t lane = 0; lane < 32; ++lane)
      EXPECT_EQ(words.word[0][lane], 0x00ff0ff1u >> lane & 1 ? 500 + lane : 0);
    memory->on_barrier(0, 1);
  }
  EXPECT_EQ(machine.all(), 0u) << machine.first();
}

TEST(ClusterAccess, broadcasts_one_address) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t a = machine.filled(64, 3);
  const LaneWords words = load(*memory, first, strided(a + 8, 0), 8);
  for (std::size_t lane = 0; lane < 32; ++lane) EXPECT_EQ(words.word[1][lane], 0x03030303u);
  EXPECT_EQ(machine.all(), 0u);
}

TEST(ClusterAccess, reads_constants_and_parameters_and_refuses_to_write_them) {
  SmallMachine machine;
  auto memory = machine.cluster();
  machine.launch.constants = {1, 2, 3, 4, 5, 6, 7, 8};
  machine.launch.params = {9, 0, 0, 0};
  EXPECT_EQ(load(*memory, first, strided(constant_window + 4, 0), 4, 1).word[0][0], 0x08070605u);
  EXPECT_EQ(load(*memory, first, strided(param_window, 0), 4, 1).word[0][0], 9u);
  EXPECT_EQ(machine.all(), 0u);
  store(*memory, first, strided(param_window, 0), 4, 1);
  EXPECT_EQ(machine.count(FindingKind::misuse), 1);
  load(*memory, {0, 0, 11, 0}, strided(constant_window + 8, 0), 4, 1);
  EXPECT_EQ(machine.count(FindingKind::out_of_bounds), 1);
}

TEST(ClusterAccess, names_the_lane_and_distance_of_what_is_out_of_bounds) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t a = machine.filled(1024);
  const LaneWords words = load(*memory, first, strided(a + 1024 - 20, 4), 4, 0xff);
  ASSERT_EQ(machine.count(FindingKind::out_of_bounds), 3);
  EXPECT_EQ(machine.findings.fatals, 3);
  EXPECT_EQ(words.word[0][4], 0x01010101u);  // the lanes inside have their bytes
  EXPECT_EQ(words.word[0][5], 0u);
  EXPECT_NE(machine.first().find("lane 5 reads 4 bytes at 0x"), std::string::npos);
  EXPECT_NE(machine.first().find(", 4 bytes past the end of allocation of 1024 bytes"),
            std::string::npos);
  store(*memory, {0, 0, 11, 0}, strided(a - 8, 0), 8, 1u << 3);
  EXPECT_NE(machine.findings.list.back().message.find("lane 3 writes 8 bytes"), std::string::npos);
  EXPECT_NE(machine.findings.list.back().message.find("8 bytes before the start"),
            std::string::npos);
}

TEST(ClusterAccess, reports_windows_overrun_and_addresses_in_none) {
  SmallMachine machine;
  auto memory = machine.cluster(0, {1, 1, 128, 16});
  std::uint32_t instruction = 0;
  for (std::uint64_t at :
       std::initializer_list<std::uint64_t>{shared_window + 128, local_window + 16, param_window,
                                            cluster_shared(1, 0), 0x7000'0000'0000'0000, 0, 64})
    load(*memory, {0, 0, instruction++, 0}, strided(at, 0), 4, 1);
  EXPECT_EQ(machine.count(FindingKind::out_of_bounds), 7);
  EXPECT_NE(machine.first().find("4 bytes past the end of the 128 bytes of shared memory"),
            std::string::npos);
}

TEST(ClusterAccess, reports_misalignment_once_a_lane) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t a = machine.filled(1024);
  load(*memory, first, strided(a + 8, 16), 16, 3);
  EXPECT_EQ(machine.count(FindingKind::misaligned), 2);
  EXPECT_NE(machine.first().find("not a multiple of 16"), std::string::npos);
}

TEST(ClusterAccess, reports_the_first_byte_nobody_wrote) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t a = machine.global.allocate(1024);
  machine.global.fill(a, 1, 22);
  load(*memory, first, strided(a, 4));
  ASSERT_EQ(machine.count(FindingKind::uninitialised_memory), 1);
  EXPECT_EQ(machine.first().find("lane 5 reads 4 bytes"), 0u);
  EXPECT_EQ(machine.global.first_unwritten(a, 64), a + 22);  // a read writes nothing
  load(*memory, {0, 0, 11, 0}, strided(shared_window, 4), 4, 1);
  load(*memory, {0, 0, 12, 0}, strided(local_window, 0), 4, 1);
  EXPECT_EQ(machine.count(FindingKind::uninitialised_memory), 3);
}

TEST(ClusterAccess, gives_each_thread_its_own_local_memory) {
  SmallMachine machine;
  auto memory = machine.cluster();
  store(*memory, {0, 0, 1, 0}, strided(local_window + 12, 0), 4, all_lanes, 100);
  store(*memory, {0, 1, 1, 0}, strided(local_window + 12, 0), 4, all_lanes, 200);
  const LaneWords words = load(*memory, {0, 0, 2, 0}, strided(local_window + 12, 0));
  for (std::uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(words.word[0][lane], 100 + lane);
  EXPECT_EQ(machine.all(), 0u);
}

TEST(ClusterAccess, reaches_a_peers_shared_memory) {
  SmallMachine machine;
  auto memory = machine.cluster(0, {2, 1, 1024, 0});
  store(*memory, {5, 0, 1, 1}, strided(shared_window, 4), 4, all_lanes, 70);
  meet(*memory, 2);
  EXPECT_EQ(load(*memory, {4, 0, 2, 0}, strided(cluster_shared(1, 0), 4)).word[0][3], 73u);
  EXPECT_EQ(machine.all(), 0u) << machine.first();
}

TEST(ClusterAccess, forgets_everything_for_the_next_cluster) {
  SmallMachine machine;
  auto memory = machine.cluster();
  store(*memory, first, strided(shared_window, 4));
  memory->begin(1);
  load(*memory, first, strided(shared_window, 4));
  EXPECT_EQ(machine.count(FindingKind::uninitialised_memory), 1);
}

TEST(ClusterAccess, reads_rows_named_by_a_lane) {
  SmallMachine machine;
  auto memory = machine.cluster();
  store(*memory, first, strided(shared_window, 4));
  memory->on_barrier(0, 0xf);
  std::uint32_t row[4];
  EXPECT_TRUE(memory->read_row({0, 1, 3, 0}, 2, shared_window + 16, 16, row));
  EXPECT_EQ(row[1], 5u);
  EXPECT_FALSE(memory->read_row({0, 1, 3, 0}, 2, shared_window + 8, 16, row));
  EXPECT_EQ(machine.count(FindingKind::misaligned), 1);
  EXPECT_TRUE(memory->write_row({0, 1, 4, 0}, 2, shared_window + 32, 16, row));
}

TEST(ClusterAccess, works_for_blocks_on_several_host_threads) {
  SmallMachine machine;
  const std::uint64_t counter = machine.filled(4, 0), data = machine.global.allocate(64 * 128);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      ClusterMemory memory(machine.launch, {1, 1, 0, 0});
      for (std::uint32_t block = t; block < 64; block += 4) {
        memory.begin(block);
        store(memory, {block, 0, 1, 0}, strided(data + block * 128, 4), 4, all_lanes, block);
        add(memory, {block, 0, 2, 0}, counter, 1, all_lanes);
      }
    });
  for (std::thread& each : threads) each.join();
  std::uint32_t total = 0;
  machine.global.read(counter, &total, 4);
  EXPECT_EQ(total, 64u * 32);
  EXPECT_EQ(machine.all(), 0u) << machine.first();
}

TEST(Runs, recognise_consecutive_lanes_only) {
  Addresses at = strided(1000, 8);
  EXPECT_TRUE(consecutive(at.data(), 8));
  EXPECT_FALSE(consecutive(at.data(), 4));
  at[31] += 1ull << 40;
  EXPECT_FALSE(consecutive(at.data(), 8));
}

}  // namespace
}  // namespace microscale::emulator
