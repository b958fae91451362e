// Resident blocks: published numbers, and what each limit does alone.
#include <gtest/gtest.h>

#include "emulator/occupancy.hpp"
#include "microscale/error.hpp"

namespace microscale::testing {
namespace {

using emulator::limits_of, emulator::Occupancy, emulator::occupancy, emulator::OccupancyLimit;

using Limits = std::vector<OccupancyLimit>;

TEST(Occupancy, an_a100_holds_2048_threads_of_32_registers) {
  const Occupancy o = occupancy(limits_of("a100"), {32, 0, 256});
  EXPECT_EQ(o.blocks, 8);
  EXPECT_EQ(o.warps * 32, 2048);
  EXPECT_EQ(o.share, 1.0);
  EXPECT_EQ(o.binding, (Limits{OccupancyLimit::warps, OccupancyLimit::registers}));
}

// An FP4 attention kernel on an RTX 5070 Ti: blocks of 64 threads with 128 registers and 48.5 KB: 2
// by shared memory, 8 by registers, 4 of 48 warps, 8.33 %.
TEST(Occupancy, shared_memory_binds_at_two_blocks_where_registers_allow_eight) {
  const Occupancy o = occupancy(limits_of("rtx5070ti"), {128, 49664, 64});
  EXPECT_EQ(o.blocks, 2);
  EXPECT_EQ(o.warps, 4);
  EXPECT_NEAR(o.share, 0.0833, 0.0001);
  EXPECT_EQ(o.binding, Limits{OccupancyLimit::shared});
  EXPECT_EQ(o.allowed[static_cast<std::size_t>(OccupancyLimit::registers)], 8);
  EXPECT_EQ(occupancy(limits_of("rtx5090"), {128, 80 * 1024, 128}).blocks, 1);
}

TEST(Occupancy, registers_are_given_out_in_units_and_partitions) {
  const auto by_registers = [](int registers, int threads) {
    return occupancy(limits_of("h200"), {registers, 0, threads})
        .allowed[static_cast<std::size_t>(OccupancyLimit::registers)];
  };
  EXPECT_EQ(by_registers(32, 32), 64);
  EXPECT_EQ(by_registers(33, 32), 48);  // 40: 12 warps of a partition's 16384 / 1280
  EXPECT_EQ(by_registers(168, 384), 1);
  EXPECT_EQ(by_registers(255, 256), 1);
  EXPECT_EQ(by_registers(255, 1024), 0);
}

TEST(Occupancy, every_block_costs_another_kilobyte) {
  EXPECT_EQ(occupancy(limits_of("h100"), {32, 113 * 1024, 64}).blocks, 2);
  EXPECT_EQ(occupancy(limits_of("h100"), {32, 113 * 1024 + 1, 64}).blocks, 1);
  EXPECT_EQ(occupancy(limits_of("h100"), {32, 227 * 1024, 64}).blocks, 1);
  EXPECT_EQ(occupancy(limits_of("h100"), {32, 227 * 1024 + 1, 64}).blocks, 0);
  EXPECT_EQ(occupancy(limits_of("b200"), {16, 0, 32}).binding, Limits{OccupancyLimit::blocks});
}

TEST(Occupancy, refuses_what_no_kernel_can_be) {
  EXPECT_THROW(limits_of("h300"), Error);
  for (const emulator::KernelUse& use :
       {emulator::KernelUse{0, 0, 32}, {256, 0, 32}, {32, -1, 32}, {32, 0, 0}, {32, 0, 1025}})
    EXPECT_THROW(occupancy(limits_of("b200"), use), Error);
  for (const auto& gpu : emulator::known_gpus()) EXPECT_EQ(limits_of(gpu.gpu).name, gpu.name);
}

}  // namespace
}  // namespace microscale::testing
