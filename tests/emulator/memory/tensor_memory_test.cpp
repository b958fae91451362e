#include "emulator/memory/tensor_memory.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator {
namespace {

TEST(TensorMemory, gives_powers_of_two_at_multiples_of_themselves) {
  EXPECT_TRUE(TensorMemory::valid(32) && TensorMemory::valid(512));
  EXPECT_FALSE(TensorMemory::valid(0) || TensorMemory::valid(16) || TensorMemory::valid(48) ||
               TensorMemory::valid(1024));
  TensorMemory memory;
  EXPECT_EQ(memory.allocate(32, false, {}), 0u);
  EXPECT_EQ(memory.allocate(128, false, {}), 128u);
  EXPECT_EQ(memory.allocate(32, false, {}), 32u);
  EXPECT_EQ(memory.allocate(256, true, {}), 256u);
  EXPECT_EQ(memory.allocate(128, true, {}), std::nullopt);
  EXPECT_TRUE(memory.holds(128, 384));
  EXPECT_FALSE(memory.holds(64, 32) || memory.holds(480, 64));
  ASSERT_NE(memory.find(128), nullptr);
  EXPECT_EQ(memory.find(160), nullptr);
  memory.free(128);
  EXPECT_EQ(memory.allocate(64, true, {}), 192u);
  memory.begin();
  EXPECT_TRUE(memory.allocations().empty());
  EXPECT_EQ(memory.allocate(512, true, {}), 0u);
}

TEST(TensorMemory, of_a_pair_is_taken_where_both_are_free) {
  TensorMemory first, second;
  EXPECT_EQ(second.allocate(256, false, {}), 0u);
  EXPECT_EQ(first.allocate(128, false, {}, &second), 256u);
  EXPECT_TRUE(first.holds(256, 128) && second.holds(256, 128));
  EXPECT_EQ(first.allocate(256, false, {}, &second), std::nullopt);
}

TEST(TensorMemory, is_unwritten_when_it_is_allocated_again) {
  TensorMemory memory;
  memory.allocate(64, false, {});
  memory.shadow().mark_written(0, TensorMemory::bytes);
  memory.free(0);
  memory.allocate(32, false, {});
  ShadowPage& page = memory.shadow().page(4 * TensorMemory::word_of(1, 0));
  EXPECT_EQ(page.first_unwritten(2048, 128), 2048u);
  EXPECT_EQ(page.first_unwritten(2048 + 128, 128), 2048u + 256u);
}

}  // namespace
}  // namespace microscale::emulator
