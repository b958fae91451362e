#include <gtest/gtest.h>

#include <vector>

#include "cuda/device/device.hpp"
#include "cuda/device/environment.hpp"

namespace microscale::cuda {
namespace {

TEST(DriverMemory, knows_nothing_of_pageable_memory) {
  const std::vector<int> host(4);
  EXPECT_EQ(driver_memory(host.data()).kind, DriverMemory::unknown);
  EXPECT_EQ(driver_memory(nullptr).kind, DriverMemory::unknown);
}

TEST(DriverMemory, knows_a_gpus_until_it_is_freed_and_what_both_read) {
  if (runtime_device_count() == 0) GTEST_SKIP() << no_device_reason();
  if (device_of_environment() != nullptr) GTEST_SKIP() << "the emulator has no driver";
  Device& device = runtime_device();
  void* const memory = device.allocate(64);
  EXPECT_EQ(driver_memory(memory).kind, DriverMemory::device);
  EXPECT_EQ(driver_memory(memory).ordinal, device.info().ordinal);
  EXPECT_EQ(device.memory_of(memory), Memory::device);
  device.release(memory);
  EXPECT_EQ(driver_memory(memory).kind, DriverMemory::unknown);
  EXPECT_EQ(device.memory_of(memory), Memory::host);
  void* const pinned = device.allocate_host(64);
  EXPECT_EQ(driver_memory(pinned).kind, DriverMemory::shared);
  device.release_host(pinned);
}

}  // namespace
}  // namespace microscale::cuda
