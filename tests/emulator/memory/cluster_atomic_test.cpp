#include <gtest/gtest.h>

#include "emulator/memory/small_machine.hpp"

namespace microscale::emulator {

TEST(ClusterAtomic, goes_lane_by_lane_and_returns_what_was_there) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t a = machine.filled(4, 0);
  const Addresses at = strided(a, 0);
  LaneWords operand{}, old{};
  operand.word[0].fill(3);
  memory->atomic({0, 0, 1, 0}, {0xfffffffe, 4, at.data()}, AtomicOp::add, AtomicType::u32, operand,
                 nullptr, &old);
  for (std::uint32_t lane = 1; lane < 32; ++lane) EXPECT_EQ(old.word[0][lane], 3 * (lane - 1));
  EXPECT_EQ(add(*memory, {0, 0, 2, 0}, a, 0), 93u);
  EXPECT_EQ(machine.all(), 0u) << machine.first();
}

TEST(ClusterAtomic, compares_and_swaps_128_bits_in_shared_memory) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const Addresses at = strided(shared_window + 16, 0);
  store(*memory, {0, 0, 1, 0}, at, 16, 1, 5, 0);
  LaneWords operand{}, compare{}, old{};
  for (std::size_t word = 0; word < 4; ++word) operand.word[word][0] = 9, compare.word[word][0] = 5;
  memory->atomic({0, 0, 2, 0}, {1, 16, at.data()}, AtomicOp::cas, AtomicType::b128, operand,
                 &compare, &old);
  EXPECT_EQ(old.word[3][0], 5u);
  EXPECT_EQ(load(*memory, {0, 0, 3, 0}, at, 16, 1).word[3][0], 9u);
}

TEST(ClusterAtomic, reports_bad_addresses_and_unwritten_bytes) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t a = machine.global.allocate(8);
  add(*memory, {0, 0, 1, 0}, a, 1);
  EXPECT_EQ(machine.count(FindingKind::uninitialised_memory), 1);
  add(*memory, {0, 0, 2, 0}, a + 2, 1);
  EXPECT_EQ(machine.count(FindingKind::misaligned), 1);
  add(*memory, {0, 0, 3, 0}, a + 8, 1);
  EXPECT_EQ(machine.count(FindingKind::out_of_bounds), 1);
}

}  // namespace microscale::emulator
