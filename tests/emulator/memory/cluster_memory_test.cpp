#include "emulator/memory/cluster_memory.hpp"

#include <gtest/gtest.h>

#include "emulator/memory/small_machine.hpp"
#include "microscale/error.hpp"

namespace microscale::emulator {

TEST(ClusterMemory, refuses_shapes_no_machine_has) {
  SmallMachine machine;
  EXPECT_THROW(ClusterMemory(machine.launch, {0, 1, 0, 0}), Error);
  EXPECT_THROW(ClusterMemory(machine.launch, {1, 0, 0, 0}), Error);
  EXPECT_THROW(ClusterMemory(machine.launch, {1, 65, 0, 0}), Error);
  EXPECT_THROW(ClusterMemory(machine.launch, {1, 1, 2u << 20, 0}), Error);
}

TEST(ClusterMemory, says_a_sentence_once_and_counts_the_rest) {
  SmallMachine machine;
  auto memory = machine.cluster();
  for (int turn = 0; turn < 3; ++turn) load(*memory, {0, 0, 5, 0}, strided(0, 0), 4, 1);
  ASSERT_EQ(machine.all(), 3u);
  EXPECT_NE(machine.findings.list[0].message, "");
  EXPECT_EQ(machine.findings.list[2].message, "");
  EXPECT_NE(machine.first().find("the null address"), std::string::npos);
}

TEST(ClusterMemory, accepts_access_across_shadow_pages) {
  SmallMachine machine;
  auto memory = machine.cluster();
  store(*memory, {0, 0, 1, 0}, strided(shared_window + 4096 - 64, 4));
  memory->on_barrier(0, 0xf);
  EXPECT_EQ(load(*memory, {0, 1, 2, 0}, strided(shared_window + 4096 - 64, 4)).word[0][20], 20u);
  store(*memory, {0, 2, 3, 0}, strided(shared_window + 4096, 4), 4, 1);
  EXPECT_EQ(machine.count(FindingKind::race), 1);
}

}  // namespace microscale::emulator
