// How a block knows that another one of its cluster has begun, and when that one must not end yet.
#include <gtest/gtest.h>

#include "emulator/memory/small_machine.hpp"

namespace microscale::emulator {
namespace {

constexpr std::uint64_t tile_of_1 = cluster_shared(1, 0);
constexpr std::uint64_t barrier_of_1 = cluster_shared(1, 512);
constexpr Agent first{0, 0, 10, 0}, second{1, 0, 20, 1};

struct Pair : SmallMachine {
  explicit Pair(MemoryOptions options = {}) : SmallMachine(options) {
    memory = cluster(0, {2, 2, 1024, 0});
  }
  int absent() const { return count(FindingKind::absent_block); }
  /// Block 1 has initialised its mbarrier, of one arrival.
  void init_of_1() { memory->mbarrier_init(second, 0, shared_window + 512, 1); }
  void wait_of_1() { EXPECT_TRUE(memory->mbarrier_test_parity(second, 0, shared_window + 512, 0)); }
  std::unique_ptr<ClusterMemory> memory;
};

TEST(ClusterPeers, a_block_that_need_not_have_begun_is_named_once_for_a_warp) {
  Pair pair;
  store(*pair.memory, first, strided(tile_of_1, 4));
  store(*pair.memory, {0, 0, 11, 0}, strided(tile_of_1, 4));
  ASSERT_EQ(pair.all(), 1u) << pair.first();
  EXPECT_EQ(pair.absent(), 1);
  EXPECT_EQ(pair.first(),
            "lane 0 writes 4 bytes at 0x180000100000000, of block 1 of the cluster, which need not "
            "have begun: no barrier.cluster.wait, and no message from there, stands before");
  load(*pair.memory, {0, 1, 12, 0}, strided(cluster_shared(1, 128), 4), 4, 0x10);
  EXPECT_EQ(pair.absent(), 2);
  EXPECT_EQ(pair.findings.fatals, 0);
}

TEST(ClusterPeers, every_way_to_touch_another_block_is_one) {
  for (int way = 0; way < 6; ++way) {
    Pair pair;
    ClusterMemory& memory = *pair.memory;
    const std::uint64_t data = pair.filled(256);
    const std::uint8_t bytes[128] = {};
    const std::uint64_t barriers[32] = {barrier_of_1};
    const Addresses to = strided(tile_of_1, 4);
    pair.init_of_1();
    if (way == 0) load(memory, first, to, 4, 1);
    if (way == 1) add(memory, first, tile_of_1, 1);
    if (way == 2) memory.mbarrier_arrive(first, 0, barrier_of_1, 1);
    if (way == 3) memory.store_async(first, {1, 4, to.data()}, bytes, barriers);
    if (way == 4) memory.bulk_copy(first, 0, tile_of_1, data, 128, barrier_of_1);
    if (way == 5) memory.write_row(first, 0, tile_of_1, 16, bytes);
    EXPECT_EQ(pair.absent(), 1) << way;
  }
}

TEST(ClusterPeers, a_block_may_name_itself) {
  Pair pair;
  store(*pair.memory, second, strided(tile_of_1, 4));
  EXPECT_EQ(pair.all(), 0u) << pair.first();
}

TEST(ClusterPeers, who_waited_at_the_clusters_barrier_knows_all_and_those_he_tells) {
  for (const bool relaxed : {true, false}) {
    Pair pair;
    meet(*pair.memory, 2, relaxed);
    store(*pair.memory, first, strided(tile_of_1, 4));
    EXPECT_EQ(pair.absent(), 0) << pair.first();
    store(*pair.memory, {0, 1, 11, 0}, strided(cluster_shared(1, 256), 4));
    EXPECT_EQ(pair.absent(), 1) << "warp 1 has not waited";
  }
  Pair pair;
  meet(*pair.memory, 2, true);
  pair.memory->on_barrier(0, 3);
  store(*pair.memory, {0, 1, 11, 0}, strided(tile_of_1, 4));
  EXPECT_EQ(pair.all(), 0u) << pair.first();
}

TEST(ClusterPeers, to_arrive_is_not_to_wait) {
  Pair pair;
  for (const Agent& agent : {first, second}) pair.memory->on_cluster_arrive(agent, false);
  pair.memory->on_cluster_open();
  store(*pair.memory, first, strided(tile_of_1, 4));
  EXPECT_EQ(pair.absent(), 1);
}

TEST(ClusterPeers, a_release_that_was_acquired_shows_that_a_block_has_begun) {
  for (const Order order : {Order::release, Order::relaxed}) {
    Pair pair;
    const std::uint64_t flag = pair.filled(4, 0);
    store(*pair.memory, second, strided(flag, 0), 4, 1, 1, 0, order);
    load(*pair.memory, first, strided(flag, 0), 4, 1, Order::acquire);
    store(*pair.memory, {0, 0, 11, 0}, strided(tile_of_1, 4));
    EXPECT_EQ(pair.absent(), order == Order::release ? 0 : 1);
  }
}

// Block 0 knows block 1, and sends it something that ends a phase of its mbarrier.
TEST(ClusterPeers, whatever_ends_the_phase_of_an_mbarrier_shows_that_its_sender_has_begun) {
  for (int way = 0; way < 3; ++way) {
    Pair pair({.policy = AsyncPolicy::random});
    ClusterMemory& memory = *pair.memory;
    const std::uint64_t data = pair.filled(256), flag = pair.filled(4, 0);
    const std::uint8_t bytes[128] = {};
    const std::uint64_t barriers[32] = {barrier_of_1};
    const Addresses to = strided(tile_of_1, 4);
    pair.init_of_1();
    memory.on_fence(second, MemoryScope::cluster);
    if (way) memory.mbarrier_arrive(second, 0, shared_window + 512, 1, way == 1 ? 4 : 128);
    store(memory, second, strided(flag, 0), 4, 1, 1, 0, Order::release);
    load(memory, first, strided(flag, 0), 4, 1, Order::acquire);
    if (way == 0) memory.mbarrier_arrive(first, 0, barrier_of_1, 1);
    if (way == 1) memory.store_async(first, {1, 4, to.data()}, bytes, barriers);
    if (way == 2) memory.bulk_copy(first, 0, tile_of_1, data, 128, barrier_of_1);
    memory.land_all();
    pair.wait_of_1();
    load(memory, {1, 0, 21, 1}, strided(cluster_shared(0, 0), 0), 4, 1);
    EXPECT_EQ(pair.absent(), 0) << way << pair.first();
  }
}

TEST(ClusterPeers, a_block_must_not_end_before_it_knows_that_it_was_touched) {
  for (int way = 0; way < 4; ++way) {
    Pair pair;
    ClusterMemory& memory = *pair.memory;
    pair.init_of_1();
    memory.on_fence(second, MemoryScope::cluster);
    store(memory, second, strided(shared_window, 4));
    meet(memory, 2);
    load(memory, first, strided(tile_of_1, 4));
    if (way == 1) meet(memory, 2);
    if (way == 2) memory.mbarrier_arrive({0, 0, 11, 0}, 0, barrier_of_1, 1), pair.wait_of_1();
    if (way == 3) meet(memory, 2, true);  // gives nothing
    memory.on_block_end(1, 1);
    EXPECT_EQ(pair.absent(), way == 0 || way == 3) << way;
    EXPECT_EQ(static_cast<int>(pair.all()), pair.absent()) << pair.first();
    EXPECT_EQ(pair.findings.fatals, 0);
  }
  Pair pair;
  meet(*pair.memory, 2);
  store(*pair.memory, first, strided(tile_of_1, 4));
  store(*pair.memory, second, strided(shared_window + 256, 4));
  pair.memory->on_block_end(1, 1);
  ASSERT_EQ(pair.all(), 1u);
  EXPECT_EQ(pair.findings.list[0].ptx_line, 10u);
  EXPECT_EQ(pair.first(),
            "lane 0 writes shared memory of block 1 of the cluster, which may have ended: it must "
            "wait, at barrier.cluster or for a message, until no other block touches its memory "
            "any more");
}

TEST(ClusterPeers, a_block_that_has_ended_has_no_memory) {
  Pair pair;
  meet(*pair.memory, 2);
  pair.memory->on_block_end(1, 1);
  EXPECT_EQ(load(*pair.memory, first, strided(tile_of_1, 4)).word[0][3], 0u);
  EXPECT_EQ(pair.absent(), 32);
  EXPECT_EQ(pair.findings.fatals, 32);
  EXPECT_NE(pair.first().find("of block 1 of the cluster, which has ended"), std::string::npos);
  pair.memory->begin(1);
  meet(*pair.memory, 2);
  store(*pair.memory, first, strided(tile_of_1, 4));
  EXPECT_EQ(pair.absent(), 32) << "another cluster";
}

}  // namespace
}  // namespace microscale::emulator
