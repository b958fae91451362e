#include <gtest/gtest.h>

#include "emulator/memory/small_machine.hpp"

namespace microscale::emulator {
namespace {

constexpr std::uint64_t place = shared_window + 8192;

TEST(ClusterMbarrier, orders_who_arrived_before_who_waited) {
  for (const bool waits : {true, false}) {
    SmallMachine machine;
    auto memory = machine.cluster();
    memory->mbarrier_init({0, 0, 1, 0}, 0, place, 2);
    memory->on_barrier(0, 0xf);
    for (std::uint32_t warp = 0; warp < 2; ++warp) {
      store(*memory, {0, warp, 2, 0}, strided(shared_window + warp * 128, 4));
      memory->mbarrier_arrive({0, warp, 3, 0}, 0, place, 1);
    }
    if (waits) {
      EXPECT_TRUE(memory->mbarrier_test_parity({0, 2, 4, 0}, 0, place, 0));
    }
    load(*memory, {0, 2, 5, 0}, strided(shared_window + 128, 4));
    EXPECT_EQ(machine.count(FindingKind::race), waits ? 0 : 1) << machine.first();
  }
}

TEST(ClusterMbarrier, does_not_order_what_came_after_the_arrival) {
  SmallMachine machine;
  auto memory = machine.cluster();
  memory->mbarrier_init({0, 0, 1, 0}, 0, place, 1);
  memory->on_barrier(0, 0xf);
  const std::uint64_t state = memory->mbarrier_arrive({0, 0, 3, 0}, 0, place, 1);
  store(*memory, {0, 0, 2, 0}, strided(shared_window, 4));
  EXPECT_TRUE(memory->mbarrier_test({0, 0, 4, 0}, 0, place, state));
  EXPECT_TRUE(memory->mbarrier_test({0, 1, 4, 0}, 0, place, state));
  load(*memory, {0, 1, 5, 0}, strided(shared_window, 4));
  EXPECT_EQ(machine.count(FindingKind::race), 1);
}

TEST(ClusterMbarrier, says_no_until_the_phase_is_complete) {
  SmallMachine machine;
  auto memory = machine.cluster();
  memory->mbarrier_init({0, 0, 1, 0}, 0, place, 2);
  const std::uint64_t state = memory->mbarrier_arrive({0, 0, 2, 0}, 0, place, 1, 64);
  EXPECT_FALSE(memory->mbarrier_test({0, 0, 3, 0}, 0, place, state));
  memory->mbarrier_arrive({0, 0, 4, 0}, 0, place, 1);
  EXPECT_FALSE(memory->mbarrier_test({0, 0, 3, 0}, 0, place, state));
  memory->mbarrier_complete({0, 0, 5, 0}, 0, place, 64);
  EXPECT_TRUE(memory->mbarrier_test({0, 0, 3, 0}, 0, place, state));
  EXPECT_EQ(machine.all(), 0u) << machine.first();
}

TEST(ClusterMbarrier, misuse_is_named) {
  SmallMachine machine;
  auto memory = machine.cluster();
  memory->mbarrier_arrive({0, 0, 1, 0}, 0, place, 1);
  EXPECT_NE(machine.findings.list.back().message.find("no mbarrier was initialised"),
            std::string::npos);
  memory->mbarrier_init({0, 0, 2, 0}, 0, place, 1);
  memory->mbarrier_init({0, 0, 3, 0}, 0, place, 1);
  EXPECT_NE(machine.findings.list.back().message.find("mbarrier.inval is missing"),
            std::string::npos);
  memory->mbarrier_arrive({0, 0, 4, 0}, 0, place, 2);
  EXPECT_NE(machine.findings.list.back().message.find("more arrivals than its count"),
            std::string::npos);
  memory->mbarrier_test({0, 0, 5, 0}, 0, place, 9);
  EXPECT_NE(machine.findings.list.back().message.find("not of this phase"), std::string::npos);
  memory->mbarrier_invalidate({0, 0, 6, 0}, 0, place);
  memory->mbarrier_test({0, 0, 7, 0}, 0, place, 0);
  memory->mbarrier_init({0, 0, 8, 0}, 0, place + 4, 1);
  EXPECT_EQ(machine.count(FindingKind::misuse), 5);
  EXPECT_EQ(machine.count(FindingKind::misaligned), 1);
}

TEST(ClusterMbarrier, use_without_a_barrier_after_init_is_a_race) {
  SmallMachine machine;
  auto memory = machine.cluster();
  memory->mbarrier_init({0, 0, 1, 0}, 0, place, 1);
  memory->mbarrier_arrive({0, 1, 2, 0}, 0, place, 1);
  EXPECT_EQ(machine.count(FindingKind::race), 1);
}

TEST(ClusterMbarrier, an_arrival_of_the_maker_does_not_hide_that_race) {
  SmallMachine machine;
  auto memory = machine.cluster();
  memory->mbarrier_init({0, 0, 1, 0}, 0, place, 1);
  memory->mbarrier_arrive({0, 0, 2, 0}, 0, place, 1);
  EXPECT_TRUE(memory->mbarrier_test_parity({0, 1, 3, 0}, 0, place, 0));
  EXPECT_EQ(machine.count(FindingKind::race), 1);
  EXPECT_NE(machine.first().find("warp 0 initialised at PTX line 1"), std::string::npos);
}

TEST(ClusterMbarrier, says_what_its_phase_waits_for) {
  SmallMachine machine;
  auto memory = machine.cluster();
  memory->mbarrier_init({0, 0, 1, 0}, 0, place, 3);
  memory->mbarrier_arrive({0, 0, 2, 0}, 0, place, 1, 64);
  const std::string text = memory->describe_mbarrier({0, 1, 3, 0}, place);
  EXPECT_NE(text.find("2 arrivals and 64 bytes to come"), std::string::npos) << text;
  EXPECT_NE(memory->describe_mbarrier({0, 1, 3, 0}, place + 8).find("none"), std::string::npos);
}

TEST(ClusterMbarrier, of_a_peer_is_reached_through_the_cluster_window) {
  SmallMachine machine;
  auto memory = machine.cluster(0, {2, 1, 16384, 0});
  memory->mbarrier_init({0, 0, 1, 0}, 0, place, 1);
  meet(*memory, 2);
  memory->mbarrier_arrive({1, 0, 2, 1}, 0, cluster_shared(0, 8192), 1);
  EXPECT_TRUE(memory->mbarrier_test_parity({0, 0, 3, 0}, 0, place, 0));
  EXPECT_EQ(machine.all(), 0u) << machine.first();
}

}  // namespace
}  // namespace microscale::emulator
