// What fences, atomics and strong accesses order, between warps and between blocks.
#include <gtest/gtest.h>

#include "emulator/memory/small_machine.hpp"

namespace microscale::emulator {
namespace {

enum class Fence { none, block, device };

/// Every block writes a partial sum, fences, counts itself; the last reads all and resets the
/// counter.
int last_block_pattern(Fence fence, bool by_all_warps) {
  SmallMachine machine;
  const std::uint64_t counter = machine.filled(4, 0), partial = machine.global.allocate(8 * 512);
  std::vector<std::unique_ptr<ClusterMemory>> blocks;
  for (std::uint32_t block = 0; block < 8; ++block) {
    blocks.push_back(machine.cluster(block));
    ClusterMemory& memory = *blocks.back();
    const std::uint32_t warps = by_all_warps ? 4 : 1;
    for (std::uint32_t warp = 0; warp < warps; ++warp) {
      store(memory, {block, warp, 10, 0}, strided(partial + block * 512 + warp * 128, 4));
      if (fence != Fence::none)
        memory.on_fence({block, warp, 11, 0},
                        fence == Fence::block ? MemoryScope::cta : MemoryScope::gpu);
    }
    if (by_all_warps) memory.on_barrier(0, 0xf);
    const bool last = add(memory, {block, 0, 12, 0}, counter, 1) == 7;
    memory.on_barrier(0, 0xf);
    if (!last) continue;
    for (std::uint32_t each = 0; each < 8; ++each)
      for (std::uint32_t warp = 0; warp < warps; ++warp)
        load(memory, {block, warp, 13, 0}, strided(partial + each * 512 + warp * 128, 4));
    store(memory, {block, 0, 14, 0}, strided(counter, 0), 4, 1);
  }
  return machine.count(FindingKind::race);
}

TEST(ClusterSync, last_block_pattern_with_a_fence_is_no_race) {
  EXPECT_EQ(last_block_pattern(Fence::device, false), 0);
  EXPECT_EQ(last_block_pattern(Fence::device, true), 0);
}

TEST(ClusterSync, last_block_pattern_without_its_fence_is_a_race) {
  EXPECT_GT(last_block_pattern(Fence::none, false), 0);
  EXPECT_GT(last_block_pattern(Fence::none, true), 0);
  EXPECT_GT(last_block_pattern(Fence::block, true), 0);
}

TEST(ClusterSync, a_block_that_was_not_last_must_not_read) {
  SmallMachine machine;
  const std::uint64_t counter = machine.filled(4, 0), partial = machine.filled(256);
  auto a = machine.cluster(0), b = machine.cluster(1);
  const auto arrive = [&](ClusterMemory& memory, std::uint32_t block) {
    store(memory, {block, 0, 10, 0}, strided(partial + block * 128, 4));
    memory.on_fence({block, 0, 11, 0}, MemoryScope::gpu);
    add(memory, {block, 0, 12, 0}, counter, 1);
    memory.on_barrier(0, 0xf);
  };
  arrive(*a, 0);
  arrive(*b, 1);
  load(*b, {1, 0, 13, 0}, strided(partial, 4));
  EXPECT_EQ(machine.count(FindingKind::race), 0) << machine.first();
  load(*a, {0, 0, 14, 0}, strided(partial + 128, 4));
  EXPECT_EQ(machine.count(FindingKind::race), 1);
}

TEST(ClusterSync, release_and_acquire_order_a_message) {
  for (const bool ordered : {true, false}) {
    SmallMachine machine;
    const std::uint64_t flag = machine.filled(4, 0), data = machine.filled(128);
    auto a = machine.cluster(0), b = machine.cluster(1);
    store(*a, {0, 0, 10, 0}, strided(data, 4));
    store(*a, {0, 0, 11, 0}, strided(flag, 0), 4, 1, 1, 0,
          ordered ? Order::release : Order::relaxed);
    load(*b, {1, 0, 12, 0}, strided(flag, 0), 4, 1, Order::acquire);
    load(*b, {1, 0, 13, 0}, strided(data, 4));
    EXPECT_EQ(machine.count(FindingKind::race), ordered ? 0 : 1);
  }
}

TEST(ClusterSync, order_is_passed_on_by_a_third_block) {
  SmallMachine machine;
  const std::uint64_t x = machine.filled(4, 0), y = machine.filled(4, 0),
                      data = machine.filled(128);
  auto a = machine.cluster(0), b = machine.cluster(1), c = machine.cluster(2);
  store(*a, {0, 0, 10, 0}, strided(data, 4));
  store(*a, {0, 0, 11, 0}, strided(x, 0), 4, 1, 1, 0, Order::release);
  load(*b, {1, 0, 12, 0}, strided(x, 0), 4, 1, Order::acquire);
  store(*b, {1, 0, 13, 0}, strided(y, 0), 4, 1, 1, 0, Order::release);
  load(*c, {2, 0, 14, 0}, strided(y, 0), 4, 1, Order::acquire);
  load(*c, {2, 0, 15, 0}, strided(data, 4));
  EXPECT_EQ(machine.all(), 0u) << machine.first();
}

TEST(ClusterSync, flag_in_shared_memory_orders_warps_of_a_block) {
  for (const bool fenced : {true, false}) {
    SmallMachine machine;
    auto memory = machine.cluster();
    store(*memory, {0, 0, 1, 0}, strided(shared_window + 512, 0), 4, 1, 0, 0, Order::relaxed);
    store(*memory, {0, 0, 10, 0}, strided(shared_window, 4));
    if (fenced) memory->on_fence({0, 0, 11, 0}, MemoryScope::cta);
    store(*memory, {0, 0, 12, 0}, strided(shared_window + 512, 0), 4, 1, 1, 0, Order::relaxed);
    load(*memory, {0, 1, 13, 0}, strided(shared_window + 512, 0), 4, 1, Order::relaxed);
    memory->on_fence({0, 1, 14, 0}, MemoryScope::cta);
    load(*memory, {0, 1, 15, 0}, strided(shared_window, 4));
    EXPECT_EQ(machine.count(FindingKind::race), fenced ? 0 : 1) << machine.first();
  }
}

TEST(ClusterSync, atomics_do_not_race_with_atomics_but_with_plain_accesses) {
  SmallMachine machine;
  const std::uint64_t counter = machine.filled(4, 0);
  auto a = machine.cluster(0), b = machine.cluster(1);
  add(*a, {0, 0, 10, 0}, counter, 1, all_lanes);
  add(*b, {1, 0, 10, 0}, counter, 1, all_lanes);
  load(*a, {0, 1, 11, 0}, strided(counter, 0), 4, 1, Order::relaxed);
  EXPECT_EQ(machine.all(), 0u) << machine.first();
  load(*a, {0, 1, 12, 0}, strided(counter, 0), 4, 1);
  EXPECT_EQ(machine.count(FindingKind::race), 1);
}

TEST(ClusterSync, atomics_of_block_scope_race_between_blocks) {
  SmallMachine machine;
  const std::uint64_t counter = machine.filled(4, 0);
  auto a = machine.cluster(0), b = machine.cluster(1);
  add(*a, {0, 0, 10, 0}, counter, 1, 1, MemoryScope::cta);
  add(*b, {1, 0, 10, 0}, counter, 1, 1, MemoryScope::cta);
  EXPECT_EQ(machine.count(FindingKind::race), 1);
}

TEST(ClusterSync, warps_that_only_arrive_give_and_learn_nothing) {
  SmallMachine machine;
  auto memory = machine.cluster();
  store(*memory, {0, 0, 10, 0}, strided(shared_window, 4));
  store(*memory, {0, 1, 11, 0}, strided(shared_window + 128, 4));
  memory->on_barrier(0, 0x2, 0x1);  // warp 1 waits, warp 0 arrives
  load(*memory, {0, 1, 12, 0}, strided(shared_window, 4));
  EXPECT_EQ(machine.all(), 0u);
  load(*memory, {0, 0, 13, 0}, strided(shared_window + 128, 4));
  EXPECT_EQ(machine.count(FindingKind::race), 1);
}

TEST(ClusterSync, blocks_of_a_cluster_meet_at_its_barrier) {
  for (const bool met : {true, false}) {
    SmallMachine machine;
    auto memory = machine.cluster(0, {2, 1, 1024, 0});
    meet(*memory, 2);
    store(*memory, {0, 0, 10, 0}, strided(cluster_shared(1, 0), 4));
    if (met) meet(*memory, 2);
    load(*memory, {1, 0, 11, 1}, strided(shared_window, 4));
    EXPECT_EQ(machine.count(FindingKind::race), met ? 0 : 1);
    EXPECT_EQ(machine.all(), met ? 0u : 1u) << machine.first();
  }
}

TEST(ClusterSync, who_arrives_at_the_clusters_barrier_relaxed_gives_what_was_fenced) {
  for (const bool fenced : {true, false}) {
    SmallMachine machine;
    auto memory = machine.cluster(0, {2, 1, 1024, 0});
    const std::uint64_t data = machine.filled(128);
    store(*memory, {0, 0, 10, 0}, strided(data, 4));
    if (fenced) memory->on_fence({0, 0, 11, 0}, MemoryScope::cluster);
    meet(*memory, 2, true);
    load(*memory, {1, 0, 12, 1}, strided(data, 4));
    EXPECT_EQ(machine.count(FindingKind::race), fenced ? 0 : 1);
  }
}

TEST(ClusterSync, at_the_clusters_barrier_nothing_is_learned_without_waiting_nor_given_behind_it) {
  SmallMachine machine;
  auto memory = machine.cluster(0, {2, 1, 1024, 0});
  const std::uint64_t before = machine.filled(128), behind = machine.filled(128);
  store(*memory, {0, 0, 10, 0}, strided(before, 4));
  for (const std::uint32_t rank : {0u, 1u}) memory->on_cluster_arrive({rank, 0, 11, rank}, false);
  store(*memory, {0, 0, 12, 0}, strided(behind, 4));
  memory->on_cluster_open();
  load(*memory, {1, 0, 13, 1}, strided(before, 4));
  EXPECT_EQ(machine.count(FindingKind::race), 1);
  memory->on_cluster_wait(1, 0);
  load(*memory, {1, 0, 14, 1}, strided(before, 4));
  EXPECT_EQ(machine.count(FindingKind::race), 1);
  load(*memory, {1, 0, 15, 1}, strided(behind, 4));
  EXPECT_EQ(machine.count(FindingKind::race), 2);
}

}  // namespace
}  // namespace microscale::emulator
