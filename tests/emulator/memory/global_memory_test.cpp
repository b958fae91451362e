#include "emulator/memory/global_memory.hpp"

#include <gtest/gtest.h>

#include "microscale/error.hpp"

namespace microscale::emulator {

TEST(GlobalMemory, allocates_at_multiples_of_256_with_room_between) {
  GlobalMemory memory;
  const std::uint64_t a = memory.allocate(1000), b = memory.allocate(1);
  EXPECT_EQ(a % 256, 0u);
  EXPECT_EQ(b % 256, 0u);
  EXPECT_GE(a < b ? b - (a + 1000) : a - (b + 1), GlobalMemory::red_zone);
  EXPECT_EQ(memory.allocated_bytes(), 1001u);
}

TEST(GlobalMemory, gives_no_address_twice_and_none_of_the_host) {
  GlobalMemory memory, other;
  const std::uint64_t a = memory.allocate(1000);
  const std::uint8_t host = 0;
  EXPECT_GE(a, GlobalMemory::first_address);
  EXPECT_LT(reinterpret_cast<std::uint64_t>(&host), GlobalMemory::first_address);
  memory.release(a);
  EXPECT_GT(memory.allocate(1000), a);
  EXPECT_EQ(memory.find(other.allocate(1000)), nullptr);
}

TEST(GlobalMemory, finds_the_allocation_of_an_address_and_the_nearest) {
  GlobalMemory memory;
  const std::uint64_t a = memory.allocate(1024);
  EXPECT_EQ(memory.find(a)->begin, a);
  EXPECT_EQ(memory.find(a + 1023)->begin, a);
  EXPECT_EQ(memory.find(a + 1024), nullptr);
  EXPECT_EQ(memory.find(a - 1), nullptr);
  EXPECT_EQ(memory.nearest(a + 1030)->begin, a);
  EXPECT_EQ(memory.nearest(a - 1)->begin, a);
}

TEST(GlobalMemory, knows_which_bytes_the_host_wrote) {
  GlobalMemory memory;
  const std::uint64_t a = memory.allocate(10000);
  EXPECT_EQ(memory.first_unwritten(a, 10000), a);
  memory.fill(a, 7, 5000);
  EXPECT_EQ(memory.first_unwritten(a, 5000), std::nullopt);
  EXPECT_EQ(memory.first_unwritten(a, 10000), a + 5000);
  const std::uint32_t value = 0x01020304;
  memory.write(a + 5000, &value, 4);
  EXPECT_EQ(memory.first_unwritten(a + 10, 9000), a + 5004);
  std::uint32_t back = 0;
  memory.read(a + 5000, &back, 4);
  EXPECT_EQ(back, value);
}

TEST(GlobalMemory, refuses_copies_that_leave_the_allocation) {
  GlobalMemory memory;
  const std::uint64_t a = memory.allocate(16);
  std::uint8_t bytes[32] = {};
  EXPECT_THROW(memory.write(a, bytes, 17), Error);
  EXPECT_THROW(memory.read(a + 8, bytes, 9), Error);
  EXPECT_THROW(memory.write(a - 1, bytes, 1), Error);
  EXPECT_THROW(memory.release(a + 1), Error);
  memory.release(a);
  EXPECT_THROW(memory.write(a, bytes, 1), Error);
  EXPECT_THROW(memory.allocate(~std::uint64_t{0}), Error);
}

}  // namespace microscale::emulator
