#include <gtest/gtest.h>

#include "emulator/memory/small_machine.hpp"

namespace microscale::emulator {
namespace {

/// Eight warps, of which the second four are a warpgroup; warp 5 stores, fences, and all meet.
struct Stored {
  SmallMachine machine;
  std::unique_ptr<ClusterMemory> memory = machine.cluster(0, {1, 8, 4096, 0});

  explicit Stored(bool fence = true, bool barrier = true) {
    store(*memory, {0, 5, 1, 0}, strided(shared_window, 4));
    if (fence) memory->on_proxy_fence({0, 5, 2, 0});
    if (barrier) memory->on_barrier(0, 0xff);
  }
  /// As warps 4 to 7 of group 1; the third word.
  std::uint32_t read(std::uint32_t address = 0) {
    Knowledge know = memory->knowledge({0, 4, 3, 0});
    for (std::uint32_t warp = 5; warp < 8; ++warp) know.meet(memory->knowledge({0, warp, 3, 0}));
    memory->begin_matrix({0, 4, 3, 0}, know, 1);
    std::uint32_t row[4];
    inside = memory->read_matrix({0, 4, 3, 0}, address, reinterpret_cast<std::uint8_t*>(row));
    return row[2];
  }
  bool inside = false;
};

TEST(ReadMatrix, of_a_group_keeps_its_bytes_until_the_wait) {
  Stored stored;
  EXPECT_EQ(stored.read(), 2u);
  EXPECT_TRUE(stored.inside);
  ClusterMemory& memory = *stored.memory;
  for (std::uint32_t warp = 4; warp < 8; ++warp) memory.commit({0, warp, 4, 0}, AsyncKind::wgmma);
  store(memory, {0, 6, 5, 0}, strided(shared_window, 4), 4, 1);
  EXPECT_EQ(stored.machine.count(FindingKind::missing_wait), 1);
  EXPECT_NE(stored.machine.first().find("which the wgmma of the warpgroup of warp 4"),
            std::string::npos)
      << stored.machine.first();
  // Each warp learns it by its own wait; others from a warp that has waited.
  memory.wait({0, 6, 6, 0}, AsyncKind::wgmma, 0);
  store(memory, {0, 6, 7, 0}, strided(shared_window + 4, 4), 4, 1);
  EXPECT_EQ(stored.machine.all(), 1u);
  store(memory, {0, 1, 8, 0}, strided(shared_window + 8, 4), 4, 1);
  EXPECT_EQ(stored.machine.count(FindingKind::missing_wait), 2);
  memory.on_barrier(0, 0x42);
  store(memory, {0, 1, 9, 0}, strided(shared_window + 12, 4), 4, 1);
  EXPECT_EQ(stored.machine.all(), 2u);
}

TEST(ReadMatrix, is_a_race_unless_every_warp_knows_the_stores) {
  Stored stored(true, false);
  stored.memory->on_barrier(0, 0x70);  // not warp 7
  stored.read();
  EXPECT_EQ(stored.machine.count(FindingKind::race), 1) << stored.machine.first();
}

TEST(ReadMatrix, needs_the_proxy_fence) {
  Stored without(false);
  without.read();
  EXPECT_EQ(without.machine.count(FindingKind::missing_fence), 1);
  Stored by_one_reader(false);
  by_one_reader.memory->on_proxy_fence({0, 4, 3, 0});
  by_one_reader.read();
  EXPECT_EQ(by_one_reader.machine.count(FindingKind::missing_fence), 1);
  Stored by_all_readers(false);
  for (std::uint32_t warp = 4; warp < 8; ++warp)
    by_all_readers.memory->on_proxy_fence({0, warp, 3, 0});
  by_all_readers.read();
  EXPECT_EQ(by_all_readers.machine.all(), 0u);
}

TEST(ReadMatrix, beyond_shared_memory_gives_zeros_and_a_finding) {
  Stored stored;
  EXPECT_EQ(stored.read(4096), 0u);
  EXPECT_FALSE(stored.inside);
  EXPECT_EQ(stored.machine.findings.fatals, 1);
}

}  // namespace
}  // namespace microscale::emulator
