#include "emulator/memory/counters.hpp"

#include <gtest/gtest.h>

#include "emulator/memory/small_machine.hpp"

namespace microscale::emulator {
namespace {

int sectors(const Addresses& at, int bytes = 4) {
  return sectors_of({all_lanes, bytes, at.data()});
}
int conflicts(const Addresses& at, int bytes = 4, std::uint32_t lanes = all_lanes) {
  return bank_conflicts_of({lanes, bytes, at.data()});
}

TEST(Counters, see_32_store_sectors_in_the_naive_transpose_and_4_in_the_tiled_one) {
  const std::uint64_t matrix = 0x10000;
  const Addresses naive = strided(matrix, 4 * 1024), tiled = strided(matrix, 4);
  EXPECT_EQ(sectors(naive), 32);
  EXPECT_EQ(sectors(tiled), 4);
  EXPECT_EQ(ideal_sectors_of({all_lanes, 4, naive.data()}), 4);
}

TEST(Counters, see_no_conflict_down_a_column_of_pitch_132_bytes_and_31_at_128) {
  EXPECT_EQ(conflicts(strided(shared_window, 128)), 31);
  EXPECT_EQ(conflicts(strided(shared_window, 132)), 0);
  EXPECT_EQ(conflicts(strided(shared_window, 4)), 0);
  EXPECT_EQ(conflicts(strided(shared_window, 8)), 1);
  EXPECT_EQ(conflicts(strided(shared_window, 0)), 0);  // one word for all
}

TEST(Counters, take_wide_accesses_in_halves_and_quarters_of_the_warp) {
  EXPECT_EQ(conflicts(strided(shared_window, 8), 8), 0);
  EXPECT_EQ(conflicts(strided(shared_window, 16), 16), 0);
  EXPECT_EQ(conflicts(strided(shared_window, 128), 16), 4 * 7);
  EXPECT_EQ(conflicts(strided(shared_window, 128), 8), 2 * 15);
}

TEST(Counters, count_distinct_sectors_of_unaligned_and_repeated_addresses) {
  EXPECT_EQ(sectors(strided(16, 4)), 5);
  EXPECT_EQ(sectors(strided(64, 0)), 1);
  EXPECT_EQ(sectors(strided(0, 16), 16), 16);
}

TEST(Counters, sum_by_instruction_when_asked) {
  SmallMachine machine({.count = true});
  auto memory = machine.cluster();
  const std::uint64_t a = machine.filled(1 << 17);
  load(*memory, {0, 0, 10, 0}, strided(a, 4));
  load(*memory, {0, 0, 10, 0}, strided(a, 4096));
  store(*memory, {0, 0, 20, 0}, strided(shared_window, 128));
  const auto counts = machine.launch.counters.all();
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts.at(10).requests, 2u);
  EXPECT_EQ(counts.at(10).sectors, 36u);
  EXPECT_EQ(counts.at(10).ideal_sectors, 8u);
  EXPECT_EQ(counts.at(20).conflicts, 31u);
  EXPECT_GT(counts.at(20).shared_requests, 0u);
}

TEST(Counters, keep_a_sample_of_the_lowest_warp_and_the_latest_access_of_the_watched_one) {
  Counters counters;
  counters.watch(1, 2);
  const Addresses first = strided(0x1000, 4), second = strided(shared_window + 64, 4);
  counters.add({.block = 1, .warp = 2, .instruction = 7}, {all_lanes, 4, first.data()}, false);
  counters.add({.block = 0, .warp = 3, .instruction = 7}, {0xf, 4, second.data()}, true);
  counters.add({.block = 2, .warp = 0, .instruction = 7}, {all_lanes, 4, first.data()}, false);
  const AccessCount count = counters.all().at(7);
  EXPECT_EQ(count.global_requests, 2u);
  EXPECT_EQ(count.shared_requests, 1u);
  EXPECT_EQ(count.sample.block, 0u);
  EXPECT_EQ(count.sample.lanes, 0xfu);
  EXPECT_EQ(count.sample.address[1], 68u);  // in the block's shared memory
  const AccessSample watched = counters.take_watched();
  EXPECT_EQ(watched.block, 1u);
  EXPECT_EQ(watched.address[31], 0x1000u + 124);
  EXPECT_EQ(counters.take_watched().lanes, 0u);
}

}  // namespace
}  // namespace microscale::emulator
